use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use warmfront_tests::{Dialogue, Program, Requirement, require};

use crate::victim::{Victim, kills};

const PAGE_BYTES: usize = 4096;
const PAGES: u64 = 50;
const PATIENCE: Duration = Duration::from_secs(30);

/// Fills one mapped page after another with its turn's number, eight bytes each, makes it last with
/// `msync`, and says the number. A program of its own: where the daemon is gone, a mapping ends
/// with a signal.
const PROGRAM: &str = "
import mmap, sys
path, pages, turn = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with open(path, 'r+b') as file:
    mapped = mmap.mmap(file.fileno(), pages * 4096)
while True:
    at = turn % pages * 4096
    mapped[at:at + 4096] = turn.to_bytes(8, 'little') * 512
    mapped.flush(at, 4096)
    print(turn, flush=True)
    turn += 1
";

/// Has turns written from `first` on until the program ends; returns the last that it said.
fn write_turns(path: &Path, first: u64) -> Option<u64> {
    let words = ["-c".as_ref(), PROGRAM.as_ref(), path.as_os_str()];
    let numbers = [PAGES.to_string(), first.to_string()];
    let mut program = Dialogue::start(Program::new("python3").args(words).args(numbers));
    let said = std::iter::from_fn(|| program.hear(PATIENCE));
    said.last().map(|turn| turn.parse().expect("a number"))
}

/// The turn that each page is of.
fn turns(path: &Path) -> BTreeMap<u64, u64> {
    let found = fs::read(path).expect("it can be read");
    assert_eq!(found.len(), PAGES as usize * PAGE_BYTES);
    let turn = |page: &[u8]| {
        let turn = u64::from_le_bytes(page[..8].try_into().expect("eight bytes"));
        assert!(page.chunks_exact(8).all(|part| part == &page[..8]), "a page of two turns");
        turn
    };
    (0..).zip(found.chunks_exact(PAGE_BYTES).map(turn)).collect()
}

fn keeps_mapped_pages(pagecache: &str, seed: u64) {
    require!(Requirement::Fuse, Requirement::Tool("python3"));
    let mut victim = Victim::new(seed, &[("pagecache", pagecache), ("coherence", "exclusive")]);
    let path = victim.join("mapped");
    let file = fs::File::create(&path).expect("it can be made");
    file.set_len(PAGES * PAGE_BYTES as u64).expect("it can be made longer");
    file.sync_all().expect("it lasts");
    drop(file);
    // Page 0 is of turn 0 from the start.
    let (mut first, mut said) = (1, 0);
    for _ in 0..2 * kills() {
        std::thread::scope(|scope| {
            let program = scope.spawn(|| write_turns(&path, first));
            victim.kill_within(Duration::from_millis(1500));
            said = program.join().expect("it is heard to its end").unwrap_or(said);
        });
        victim.revive();
        let found = turns(&path);
        // The turn after the last that was said may have been written, or not.
        for turn in (said + 1).saturating_sub(PAGES)..=said {
            let found = found[&(turn % PAGES)];
            let next = turn + PAGES;
            assert!(
                found == turn || (found == next && next == said + 1),
                "page {} is of turn {found}, and {turn} of {said} was made to last",
                turn % PAGES
            );
        }
        first = said + 1;
    }
    assert!(said > 5, "only {said} pages were made to last");
    let mount = victim.end();
    let found = turns(&mount.origin().join("mapped"));
    let last = *found.values().max().expect("there are pages");
    assert!(last == said || last == said + 1, "of turn {last}, and {said} was made to last");
}

#[test]
fn mapped_pages_through_the_page_cache() {
    keeps_mapped_pages("on", 7);
}

#[test]
fn mapped_pages_without_the_page_cache() {
    keeps_mapped_pages("off", 8);
}
