use std::collections::BTreeMap;
use std::path::Path;

use daemon::protocol::Status;
use daemon::{Target, mount_of, mounts};
use warmfront::HumanSize;

use super::{Finding, Verdict, finding};
use crate::failure::Result;
use crate::format::things;

/// File systems whose server is another machine, by the name that the kernel has for them.
const REMOTE: &[&str] = &["nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "fuse.sshfs", "afs"];
/// File systems that lie in RAM already.
const IN_RAM: &[&str] = &["tmpfs", "ramfs"];

/// Looks at one pool that is mounted, and at the dataset that was named.
pub(super) fn findings(target: &Target) -> Result<Vec<Finding>> {
    let status = target.client()?.status()?;
    let properties: BTreeMap<String, String> =
        target.get()?.into_iter().map(|row| (row.property, row.value)).collect();
    let value = |name: &str| properties.get(name).map_or("", String::as_str);
    let fs_type = fs_type(&status.origin);
    let mut found = vec![
        origin(&status, &fs_type),
        size(&status),
        coherence(value("coherence"), &fs_type),
        caches(value("primarycache"), value("pagecache"), value("coherence")),
    ];
    found.extend(too_large(&status, &target.dataset.name, value("recordsize")));
    found.extend(unkept_answers(&status, &target.dataset.name));
    found.extend(super::flash::findings(&status, value("secondarycache")));
    found.extend(
        status
            .warnings
            .iter()
            .map(|warning| finding("daemon", Verdict::Warn, warning.clone(), None)),
    );
    Ok(found)
}

/// Records that were not let into RAM.
fn too_large(status: &Status, dataset: &str, recordsize: &str) -> Option<Finding> {
    let counters = status.datasets.get(dataset)?;
    let refused = counters.get("uncached_too_large").copied().filter(|refused| *refused > 0)?;
    let limit = match counters.get("arclimit") {
        Some(bytes) => format!("arclimit={}", HumanSize(*bytes)),
        None => "no arclimit of its own".to_string(),
    };
    let told = format!(
        "recordsize={recordsize}, {limit}, ceiling {}: {} were not kept since mounting",
        HumanSize(status.ceiling_bytes),
        things(refused, "record")
    );
    let advice = "a record may take an eighth of arclimit and of the ceiling: lower recordsize, or \
                  raise what is too small";
    Some(finding("records", Verdict::Warn, told, Some(advice)))
}

/// Answers that were not let into RAM.
fn unkept_answers(status: &Status, dataset: &str) -> Option<Finding> {
    let refused = *status.datasets.get(dataset)?.get("uncached_metadata")?;
    let count = |name: &str| status.counters.get(name).copied().unwrap_or(0);
    if refused == 0 {
        return None;
    }
    let told = format!(
        "{} (names, attributes, listings) were not kept since mounting: of a ceiling of {}, {} are \
         in use by {} and other things that cannot be evicted",
        things(refused, "answer"),
        HumanSize(status.ceiling_bytes),
        HumanSize(count("other_size")),
        things(count("objects"), "object"),
    );
    let advice = "one answer may take an eighth of what is left; raise the ceiling (set-arc-max), \
                  or have programs hold fewer files and directories open";
    Some(finding("answers", Verdict::Warn, told, Some(advice)))
}

fn fs_type(origin: &Path) -> String {
    let mounts = mounts().unwrap_or_default();
    mount_of(&mounts, origin).map_or("unknown".to_string(), |mount| mount.fs_type.clone())
}

fn origin(status: &Status, fs_type: &str) -> Finding {
    let told = format!("{} on {fs_type}", status.origin.display());
    if let Some(model) = &status.slow {
        let advice = "mounted with --slow, for trying things out";
        return finding(
            "origin",
            Verdict::Warn,
            format!("{told}, slowed to {model}"),
            Some(advice),
        );
    }
    match IN_RAM.contains(&fs_type) {
        true => {
            finding("origin", Verdict::Warn, told, Some("it is in RAM: no cache makes it faster"))
        }
        false => finding("origin", Verdict::Ok, told, None),
    }
}

/// How much of the origin the ceiling can hold.
fn size(status: &Status) -> Finding {
    let ceiling = HumanSize(status.ceiling_bytes);
    let Ok(space) = rustix::fs::statvfs(&status.origin) else {
        return finding("size", Verdict::Warn, "the origin does not answer", None);
    };
    let used = space.f_blocks.saturating_sub(space.f_bfree).saturating_mul(space.f_frsize);
    let told = format!("ceiling {ceiling}; {} are in use on the origin's disk", HumanSize(used));
    match used > status.ceiling_bytes {
        true => {
            let advice = "not all of it fits; `warmfront arcstat` shows whether what is read does";
            finding("size", Verdict::Ok, told, Some(advice))
        }
        false => finding("size", Verdict::Ok, told, None),
    }
}

fn coherence(coherence: &str, fs_type: &str) -> Finding {
    let told = format!("coherence={coherence}");
    let advice = match (coherence, REMOTE.contains(&fs_type)) {
        ("exclusive", true) => {
            "changes made on other machines are not noticed; right only if there are none"
        }
        ("exclusive", false) => return finding("coherence", Verdict::Ok, told, None),
        (_, true) => {
            "each open asks the server; `exclusive` if no other machine writes, else `ttl=S`"
        }
        (_, false) => "warm opens ask the origin; `exclusive` if nothing else writes to it",
    };
    finding("coherence", Verdict::Warn, told, Some(advice))
}

fn caches(primarycache: &str, pagecache: &str, coherence: &str) -> Finding {
    let told = format!("primarycache={primarycache} pagecache={pagecache}");
    let advice = match (primarycache, pagecache) {
        ("all", "on") if coherence.starts_with("ttl") => {
            "the page cache is not used under coherence=ttl: contents are asked about too often"
        }
        ("all", "on") => "what is hot lies in RAM twice, in the page cache and in the ARC",
        ("all", _) => return finding("levels", Verdict::Ok, told, None),
        _ => "contents are not kept: every read of them asks the origin",
    };
    finding("levels", Verdict::Warn, told, Some(advice))
}
