//! What people read in a terminal: lines that it does not break.

use std::fs;
use std::time::Duration;

use warmfront_tests::{Mount, Requirement, fill, require, test_directory, wait_until};

const COLUMNS: usize = 80;
const PATIENCE: Duration = Duration::from_secs(30);
const MIB: usize = 1 << 20;

/// What a terminal shows: without colours.
fn shown(text: &str) -> String {
    let mut parts = text.split('\u{1b}');
    let plain = parts.next().unwrap_or_default().to_string();
    let rest = parts.filter_map(|part| Some(part.split_once('m')?.1));
    rest.fold(plain, |text, part| text + part)
}

#[test]
fn lines_fit_into_a_terminal_of_80_columns() {
    require!(Requirement::Fuse, Requirement::Tool("script"));
    let devices = test_directory();
    let [cache, log] = ["cache", "log"].map(|name| devices.path().join(name));
    fs::File::create(&cache).and_then(|file| file.set_len(64 << 20)).expect("a hole");
    let mut mount = Mount::builder()
        .argument("--arc-max=16M")
        .argument("--cache")
        .argument(cache.to_str().expect("text"))
        .argument("--log")
        .argument(&format!("{}:32M", log.display()))
        .argument("-owrite=back")
        .start();
    let [data, mounted] = [mount.origin().join("data"), mount.join("data")];
    let contents = fill(&data, 7, 24 * MIB);
    let top = mount.path().to_str().expect("text").to_string();
    let below = "a-directory-with-a-long-name-that-is-a-dataset-of-its-own";
    fs::create_dir(mount.join(below)).expect("a directory");
    let dataset = format!("slow/{below}");
    mount.warmfront().run(["create", &dataset]);
    mount.warmfront().run(["set", "arcreserve=2M", &dataset]);
    let read = || {
        assert!(fs::read(&mounted).expect("it can be read") == contents);
        mount.counter("l2_records") > 0
    };
    assert!(wait_until(PATIENCE, read), "flash takes nothing in");
    fs::write(mount.join(below).join("written"), "contents").expect("it is taken");
    let file = mounted.to_str().expect("text");
    let cases: [(&[&str], &str); 10] = [
        (&["status", &top], "Left out, for a wider terminal"),
        (&["why", file], "WHY NOT ON FLASH"),
        (&["arcstat", &top], "avail"),
        (&["arcstat", "-l", &top], "l2size"),
        (&["arcstat", "-x", &top], "evict"),
        (&["arcstat", "-z", &top], "pwaste"),
        (&["zil", &top], "zsize"),
        (&["txgs", &top], "ENDED"),
        (&["iostat", &top], "orbytes"),
        (&["arcstat", "-l", "-s", " | ", &top], "left out"),
    ];
    for (words, part) in cases {
        let program = mount.warmfront().program(words).in_terminal(COLUMNS);
        let text = shown(&program.run().success());
        assert!(text.contains(part), "{words:?}: no {part:?} in {text}");
        let is_long = |line: &&str| line.trim_end().chars().count() > COLUMNS;
        let long: Vec<&str> = text.lines().filter(is_long).collect();
        assert!(long.is_empty(), "{words:?}: {long:#?} in {text}");
        let piped = mount.warmfront().run(words);
        assert!(!piped.contains("Left out"), "{words:?}: {piped}");
    }
    let piped = mount.run(&["status"]);
    assert!(piped.contains("GHOST HITS") && piped.contains("DWPD"), "{piped}");
    mount.unmount();
}
