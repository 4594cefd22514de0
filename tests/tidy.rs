//! Keeps the source tree honest: sizes, words, links, and where unsafe code may stand.

use std::fs;
use std::path::{Path, PathBuf};

use warmfront_tests::source_tree;

/// Longest line of Rust, in characters.
const COLUMNS_MAX: usize = 100;

/// Longest file of Rust, in lines.
const LINES_MAX: usize = 900;

/// Longest README, in lines.
const README_LINES_MAX: usize = 120;

/// The modules that may hold unsafe code, each because what it does has no safe interface.
const UNSAFE_MODULES: &[&str] = &[
    "crates/arc/src/biased.rs",
    "crates/arc/src/buffers/buffer.rs",
    "crates/arc/src/buffers/region.rs",
    "crates/daemon/src/allocator.rs",
    "crates/fuse/src/device.rs",
    "crates/storage/src/device/uring.rs",
    "crates/storage/src/directory/caller.rs",
    "crates/warmfront/src/heap.rs",
    "tests/src/mapping.rs",
];

/// Directories that are not ours to judge.
const LEFT_OUT: [&str; 3] = [".git", "target", "proptest-regressions"];

/// All files of the source tree, with paths relative to its top, whose names end so.
fn files(suffixes: &[&str]) -> Vec<(PathBuf, String)> {
    let top = source_tree();
    let mut found = Vec::new();
    let mut open = vec![PathBuf::new()];
    while let Some(directory) = open.pop() {
        let entries = fs::read_dir(top.join(&directory)).expect("the source tree can be read");
        for entry in entries.map(|entry| entry.expect("the source tree can be read")) {
            let name = entry.file_name().into_string().expect("file names are UTF-8");
            let path = directory.join(&name);
            if LEFT_OUT.contains(&name.as_str()) {
                continue;
            }
            if top.join(&path).is_dir() {
                open.push(path);
            } else if suffixes.iter().any(|suffix| name.ends_with(suffix)) {
                let text = fs::read_to_string(top.join(&path));
                let text = text.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                found.push((path, text));
            }
        }
    }
    assert!(!found.is_empty(), "no files end with {suffixes:?}");
    found.sort();
    found
}

/// Fails with all `faults`, unless there are none.
#[track_caller]
fn none(faults: Vec<String>) {
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

/// One fault for each line for which `judge` has a complaint.
fn judge_lines(suffixes: &[&str], judge: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let mut faults = Vec::new();
    for (path, text) in files(suffixes) {
        for (index, line) in text.lines().enumerate() {
            if let Some(complaint) = judge(line) {
                faults.push(format!("{}:{}: {complaint}", path.display(), index + 1));
            }
        }
    }
    faults
}

#[test]
fn lines_are_short() {
    none(judge_lines(&[".rs"], |line| {
        let columns = line.chars().count();
        (columns > COLUMNS_MAX).then(|| format!("{columns} columns, {COLUMNS_MAX} at most"))
    }));
}

#[test]
fn files_are_short() {
    let lengths = files(&[".rs"]).into_iter().map(|(path, text)| (path, text.lines().count()));
    let long = lengths.filter(|(_, lines)| *lines > LINES_MAX);
    none(long.map(|(path, lines)| format!("{}: {lines} lines", path.display())).collect());
}

#[test]
fn the_readme_is_short() {
    let text = fs::read_to_string(source_tree().join("README.md")).expect("there is a README.md");
    let lines = text.lines().count();
    assert!(lines <= README_LINES_MAX, "README.md has {lines} lines, {README_LINES_MAX} at most");
}

/// Nothing is left for later in the code, and nothing is named that only one machine has.
#[test]
fn no_unfinished_work() {
    // In pieces, so that this file does not complain of itself.
    let words = [
        ["TO", "DO"],
        ["FIX", "ME"],
        ["XX", "X"],
        ["todo", "!("],
        ["unimpl", "emented!("],
        ["dbg", "!("],
        ["#[ign", "ore"],
        ["assert!(", "true)"],
        ["/wo", "rk/"],
        ["#[all", "ow("],
        ["#![all", "ow("],
    ];
    let words = words.map(|[start, end]| format!("{start}{end}"));
    let suffixes = [".rs", ".toml", ".md", ".sh", "Makefile", "run", "setup"];
    none(judge_lines(&suffixes, |line| {
        let word = words.iter().find(|word| line.contains(word.as_str()))?;
        Some(format!("{word:?} in {:?}", line.trim()))
    }));
}

/// Plain ASCII: no typographic quotes, no spaces that look like others. What the terminal draws
/// with is written as an escape.
#[test]
fn sources_are_ascii() {
    none(judge_lines(&[".rs", ".toml", ".sh", "Makefile"], |line| {
        let strange = line.chars().find(|letter| !letter.is_ascii())?;
        Some(format!("{strange:?} (U+{:04X})", u32::from(strange)))
    }));
    none(judge_lines(&[".md"], |line| {
        let typographic = ['\u{2018}', '\u{2019}', '\u{201c}', '\u{201d}', '\u{a0}', '\u{200b}'];
        line.chars().find(|letter| typographic.contains(letter)).map(|it| format!("{it:?}"))
    }));
}

#[test]
fn no_spaces_at_line_ends() {
    none(judge_lines(&[".rs", ".toml", ".md", ".sh", "Makefile"], |line| {
        (line.trim_end() != line).then(|| "white space at the end".to_string())
    }));
}

/// Every package takes the workspace's lints, which deny unsafe code; only the modules named
/// above lift that, with a reason, and each block says why it is sound.
#[test]
fn unsafe_code_stands_where_it_may() {
    let mut faults = Vec::new();
    for (path, text) in files(&["Cargo.toml"]) {
        let package = text.contains("[package]");
        if package && !text.contains("[lints]\nworkspace = true") {
            faults.push(format!("{}: does not take the workspace's lints", path.display()));
        }
        if !package && !text.contains("unsafe_code = \"deny\"") {
            faults.push(format!("{}: does not deny unsafe code", path.display()));
        }
    }
    let lifts = ["expect(unsafe", "_code"].concat();
    for (path, text) in files(&[".rs"]) {
        let named = UNSAFE_MODULES.iter().any(|module| path == Path::new(module));
        if text.contains(&lifts) != named {
            faults.push(format!("{}: unsafe and UNSAFE_MODULES disagree", path.display()));
        }
    }
    none(faults);
}

/// Links in the documents lead to files that exist.
#[test]
fn links_lead_somewhere() {
    let mut faults = Vec::new();
    for (path, text) in files(&[".md"]) {
        let directory =
            source_tree().join(&path).parent().expect("a file lies somewhere").to_owned();
        for piece in text.split("](").skip(1) {
            let Some(target) = piece.split([')', ' ', '#']).next() else { continue };
            if target.is_empty() || target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            if !directory.join(target).exists() {
                faults.push(format!("{}: {target} does not exist", path.display()));
            }
        }
    }
    none(faults);
}

/// The parts stand above each other: a crate knows nothing of what stands above it.
#[test]
fn dependencies_point_downward() {
    let order = ["storage", "arc", "l2arc", "zil", "warmfront", "lab", "fuse", "daemon", "cli"];
    let top = source_tree().join("crates");
    let mut faults = Vec::new();
    for (level, name) in order.iter().enumerate() {
        let manifest = top.join(name).join("Cargo.toml");
        let text = fs::read_to_string(&manifest).expect("each part has a manifest");
        for above in &order[level + 1..] {
            let dependency = if *above == "warmfront" {
                above.to_string()
            } else {
                format!("warmfront-{above}")
            };
            let named = text
                .lines()
                .any(|line| line.split(['.', ' ', '=']).next() == Some(dependency.as_str()));
            if named {
                faults
                    .push(format!("crates/{name} depends on {dependency}, which stands above it"));
            }
        }
    }
    none(faults);
}
