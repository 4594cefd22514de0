//! `policy`: by which rules the records of a dataset are kept.

use std::path::Path;

use futures::executor::block_on;
use warmfront::{DatasetTree, Why};

use crate::common::{Bench, READ_WRITE, pattern, read};

const RECORD: usize = 4096;

fn why(bench: &Bench, file: &str) -> Why {
    block_on(bench.pool.why(Path::new(file))).expect("it is there")
}

#[test]
fn a_dataset_has_rules_of_its_own_and_tells_what_others_would_do() {
    let bench = Bench::new(&["prefetch=none", "recordsize=4K"], 64 << 20);
    for name in ["plain", "papers"] {
        bench.put(name, &pattern(100 * RECORD, 1));
        bench.pool.datasets().create(&format!("pool/{name}"), None).expect("a new one");
    }
    let set =
        |value: &str| bench.pool.datasets().edit(|tree| tree.set("pool/papers", "policy", value));
    set("arc").expect("a value");
    let read_all = |name| {
        let file = bench.open(name, READ_WRITE);
        (0..100).for_each(|number| drop(read(&file, number * RECORD as u64, RECORD)));
    };
    ["plain", "papers"].into_iter().for_each(read_all);
    let (plain, papers) = (why(&bench, "plain"), why(&bench, "papers"));
    // Nothing was used again so far.
    assert_eq!((plain.policy.as_str(), plain.setting.as_deref()), ("auto", Some("recency")));
    let names: Vec<&str> = plain.settings.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["steady", "frequency", "balance", "recency"]);
    assert_eq!((papers.policy.as_str(), papers.setting, papers.settings.len()), ("arc", None, 0));
    assert_eq!((plain.runs[0].state.as_str(), papers.runs[0].state.as_str()), ("mru", "mru"));
    assert!(bench.counter_of("pool/plain", "auto_sampled") >= 100);
    read_all("plain");
    assert_eq!(why(&bench, "plain").setting.as_deref(), Some("frequency"));
    assert_eq!(bench.counter_of("pool/plain", "auto_setting"), 2);

    set("auto").expect("a value");
    let papers = why(&bench, "papers");
    assert_eq!((papers.policy.as_str(), papers.records_cached), ("auto", 100), "nothing was lost");
    bench.pool.datasets().validate().expect("valid");
}

#[test]
fn the_policy_that_is_told_of_a_dataset_is_in_force_there() {
    let bench = Bench::new(&["prefetch=none", "recordsize=4K"], 64 << 20);
    let datasets = [
        ("pool", "top"),
        ("pool/above", "above"),
        ("pool/above/own", "own"),
        ("pool/above/plain", "plain"),
        ("pool/above/own/below", "below"),
    ];
    for (name, file) in datasets {
        bench.put(file, &pattern(RECORD, 1));
        if name != "pool" {
            bench.pool.datasets().create(name, Some(Path::new(file))).expect("a new one");
        }
    }
    let set = |name: &str, value: Option<&str>| {
        let change = |tree: &mut DatasetTree| match value {
            Some(value) => tree.set(name, "policy", value),
            None => tree.inherit(name, "policy", false),
        };
        bench.pool.datasets().edit(change).expect("a value");
    };
    let are = |expected: [&str; 5]| {
        for ((name, file), expected) in datasets.into_iter().zip(expected) {
            let rows = bench.pool.datasets().get(name).expect("it is there");
            let told = rows.into_iter().find(|row| row.property == "policy").expect("a property");
            let in_force = why(&bench, file).policy;
            assert_eq!((told.value.as_str(), in_force.as_str()), (expected, expected), "{name}");
        }
        bench.pool.datasets().validate().expect("valid");
    };
    are(["auto"; 5]);
    set("pool/above", Some("arc"));
    are(["auto", "arc", "arc", "arc", "arc"]);
    set("pool/above/own", Some("auto"));
    are(["auto", "arc", "auto", "arc", "auto"]);
    set("pool", Some("arc"));
    are(["arc", "arc", "auto", "arc", "auto"]);
    set("pool/above/own", None);
    are(["arc"; 5]);
}
