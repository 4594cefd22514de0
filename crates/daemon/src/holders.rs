use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxFlags, makedev, statx};

use crate::mountinfo::mounts;
use crate::protocol::Holder;

/// Most holders that are named.
pub const HOLDERS_MAX: usize = 32;

/// The processes that keep the file system with this device number in use, as far as this user may
/// see them, and mounts below it.
///
/// The file system itself is not asked anything, so this works while it is slow or dead.
pub fn holders_of(device: u64) -> Vec<Holder> {
    let mut holders = mounts_below(device);
    let Ok(processes) = fs::read_dir("/proc") else {
        return holders;
    };
    let pids = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    for pid in pids {
        let directory = PathBuf::from(format!("/proc/{pid}"));
        let found = hold(&directory, device);
        if found.is_empty() {
            continue;
        }
        let name = fs::read_to_string(directory.join("comm")).unwrap_or_default();
        let name = name.trim_end().to_string();
        holders.extend(found.into_iter().map(|(how, path)| Holder {
            pid,
            name: name.clone(),
            how: how.to_string(),
            path,
        }));
        if holders.len() >= HOLDERS_MAX {
            holders.truncate(HOLDERS_MAX);
            break;
        }
    }
    holders
}

/// How the process holds the file system, each way with the path concerned.
fn hold(process: &Path, device: u64) -> Vec<(&'static str, Option<PathBuf>)> {
    let mut found = Vec::new();
    for (link, how) in
        [("cwd", "working directory"), ("root", "root directory"), ("exe", "program")]
    {
        let link = process.join(link);
        if device_of(&link) == Some(device) {
            found.push((how, fs::read_link(&link).ok()));
        }
    }
    let files = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    for file in files {
        if device_of(&file.path()) == Some(device) {
            found.push(("file", fs::read_link(file.path()).ok()));
        }
    }
    let maps = fs::read(process.join("maps")).unwrap_or_default();
    if let Some(path) = mapped(&maps, device)
        && !found.iter().any(|(_, known)| known.as_ref() == Some(&path))
    {
        found.push(("mapping", Some(path)));
    }
    found
}

/// The device that a link of `/proc` leads to. Asking for no attributes asks no file system.
fn device_of(link: &Path) -> Option<u64> {
    let flags = AtFlags::STATX_DONT_SYNC;
    let found = statx(CWD, link, flags, StatxFlags::empty()).ok()?;
    Some(makedev(found.stx_dev_major, found.stx_dev_minor))
}

/// The first mapped file of the device in a `/proc/PID/maps`:
/// `START-END MODE OFFSET MAJOR:MINOR INODE PATH`.
fn mapped(maps: &[u8], device: u64) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt;

    maps.split(|byte| *byte == b'\n').find_map(|line| {
        let mut fields = line.splitn(6, |byte| *byte == b' ');
        let number = std::str::from_utf8(fields.nth(3)?).ok()?;
        let (major, minor) = number.split_once(':')?;
        let hex = |text| u32::from_str_radix(text, 16).ok();
        let path = fields.nth(1)?.trim_ascii_start();
        (makedev(hex(major)?, hex(minor)?) == device)
            .then(|| PathBuf::from(std::ffi::OsStr::from_bytes(path)))
    })
}

/// Other file systems that are mounted on directories of this one.
fn mounts_below(device: u64) -> Vec<Holder> {
    let mounts = mounts().unwrap_or_default();
    let ours: Vec<&Path> = mounts
        .iter()
        .filter(|mount| mount.device == device)
        .map(|mount| mount.mountpoint.as_path())
        .collect();
    mounts
        .iter()
        .filter(|mount| mount.device != device)
        .filter(|mount| {
            ours.iter().any(|top| mount.mountpoint != *top && mount.mountpoint.starts_with(top))
        })
        .take(HOLDERS_MAX)
        .map(|mount| Holder {
            pid: 0,
            name: mount.fs_type.clone(),
            how: "mounted below".to_string(),
            path: Some(mount.mountpoint.clone()),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;
    use std::process::{Command, Stdio};

    #[test]
    fn a_process_with_an_open_file_is_found() {
        let base = tempfile::tempdir().expect("a directory");
        let path = base.path().join("held");
        let file = fs::File::create(&path).expect("made");
        let device = file.metadata().expect("it is there").dev();
        let mut holder = Command::new("sleep")
            .arg("60")
            .stdin(Stdio::from(file))
            .current_dir(base.path())
            .spawn()
            .expect("sleep runs");
        let found = hold(Path::new(&format!("/proc/{}", holder.id())), device);
        holder.kill().and_then(|()| holder.wait().map(drop)).expect("it ends");
        assert!(found.contains(&("file", Some(path))), "{found:?}");
        let directory = Some(base.path().to_owned());
        assert!(found.contains(&("working directory", directory)), "{found:?}");
    }

    #[test]
    fn mapped_files_are_found_by_device() {
        let maps = b"7f00-7f10 r--p 00000000 08:01 42 /usr/lib/libc.so\n\
            7f20-7f30 rw-p 00000000 00:00 0 \n\
            7f30-7f40 r--s 00001000 00:2d 77                         /fast/a file\n";
        let path = mapped(maps, makedev(0, 0x2d));
        assert_eq!(path.as_deref(), Some(Path::new("/fast/a file")));
        assert_eq!(mapped(maps, makedev(9, 9)), None);
    }
}
