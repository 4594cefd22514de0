//! Hit ratios on the ARC paper's OLTP trace, against an independent implementation of CAR.
//!
//! The trace is looked for in `../shared/traces` beside the workspace; without it, or without the
//! `zstd` program, the test says so and passes.

use std::hash::BuildHasher;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use arc::{Charge, Class, Kind, Options, Policy, PolicyKind};
use hashbrown::DefaultHashBuilder;

/// Greatest difference to the other implementation, points.
const TOLERANCE: f64 = 0.3;

fn oltp() -> Result<Vec<u64>, String> {
    let workspace = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let workspace = workspace.canonicalize().map_err(|why| why.to_string())?;
    let trace = workspace.join("../shared/traces/arc/OLTP.lis.zst");
    if !trace.exists() {
        return Err(format!("no trace at {}", trace.display()));
    }
    let output = Command::new("zstd").arg("-dcq").arg(&trace).output();
    let text = output.map_err(|why| format!("cannot run zstd: {why}"))?.stdout;
    let text = String::from_utf8(text).map_err(|why| why.to_string())?;
    let mut pages = Vec::new();
    for line in text.lines() {
        let mut columns = line.split_whitespace().map(|column| column.parse::<u64>().unwrap());
        let (start, count) = (columns.next().unwrap(), columns.next().unwrap());
        pages.extend(start..start + count);
    }
    Ok(pages)
}

fn hit_ratio_percent(pages: &[u64], cache_pages: u64) -> f64 {
    let options = Options {
        correlated_window: Duration::ZERO,
        charge_overhead: false,
        policy: PolicyKind::Arc,
        ..Options::new(cache_pages)
    };
    let hasher = DefaultHashBuilder::default();
    let mut policy = Policy::<u64, ()>::new(&options);
    let charge = Charge { bytes: 1, class: Class::Data, kind: Kind::Demand, tenant: 0 };
    let mut hits = 0;
    let mut gone = Vec::new();
    for &page in pages {
        let hash = hasher.hash_one(page);
        if policy.get(hash, &page, Duration::ZERO).is_some() {
            hits += 1;
        } else {
            policy.insert(hash, page, (), charge, Duration::ZERO, &mut gone).unwrap();
            gone.clear();
        }
    }
    policy.validate().unwrap();
    assert!(policy.charged_bytes() <= cache_pages);
    100.0 * f64::from(hits) / pages.len() as f64
}

#[test]
fn oltp_like_car() {
    let pages = match oltp() {
        Ok(pages) => pages,
        Err(why) => return println!("skipped: {why}"),
    };
    assert_eq!(pages.len(), 914_145);
    for (cache_pages, car) in
        [(1000, 39.30), (2000, 46.22), (5000, 55.34), (10_000, 61.96), (15_000, 65.84)]
    {
        let ratio = hit_ratio_percent(&pages, cache_pages);
        println!("OLTP, {cache_pages} pages: {ratio:.2} %, CAR {car:.2} %");
        assert!((ratio - car).abs() <= TOLERANCE, "{cache_pages}: {ratio:.2} %, CAR {car:.2} %");
    }
}
