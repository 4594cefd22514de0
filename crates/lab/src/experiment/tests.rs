use xxhash_rust::xxh3::xxh3_64;

use super::*;

fn findings(name: &str) -> Vec<Finding> {
    Experiment::shipped(name)
        .and_then(|experiment| experiment.run())
        .map(|outcome| outcome.findings)
        .unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn a_seed_finds_the_same_to_the_byte() {
    for name in ["flash-power-loss", "flash-erase-before-write"] {
        let hash = || xxh3_64(csv(name, &findings(name)).as_bytes());
        assert_eq!(hash(), hash());
    }
}

#[test]
fn findings_point_where_the_sources_do() {
    for name in Experiment::names() {
        let findings = findings(name);
        for finding in &findings {
            println!("{name}: {finding:?}");
            assert!(finding.lab.is_finite());
            if let Some(ratio) = finding.ratio() {
                assert!((0.7..1.3).contains(&ratio), "{name}: {finding:?}");
            }
        }
        let lab: Vec<f64> = findings.iter().map(|finding| finding.lab).collect();
        match name {
            "flash-erase-before-write" => {
                let [new, used, before, rested, discarded, _] = lab[..] else { panic!("{lab:?}") };
                assert!(used < 0.7 * new && rested > before, "{lab:?}");
                assert!(discarded > used, "{lab:?}");
            }
            "flash-power-loss" => assert!(lab[0] == 0.0 && lab[1] > 0.0, "{lab:?}"),
            _ => (),
        }
    }
}

#[test]
fn a_mistake_is_shown_where_it_stands() {
    let unknown = Experiment::shipped("tape").expect_err("there is none").to_string();
    assert!(unknown.contains("flash-reserve"), "{unknown}");
    let text = SHIPPED[0].1.replace("endurance_divisor", "endurance");
    let message = Experiment::parse("mine", &text).expect_err("refused").to_string();
    assert!(message.contains("mine") && message.contains("endurance"), "{message}");
    let text = SHIPPED[0].1.replace("sun-f20-slc", "nvme");
    let error = Experiment::parse("mine", &text).and_then(|experiment| experiment.run());
    assert!(error.expect_err("refused").to_string().contains("not flash"));
}
