use xxhash_rust::xxh3::Xxh3;

use super::*;

fn parameters(text: &str) -> WorkloadParameters {
    toml::from_str(text).unwrap_or_else(|error| panic!("{error}"))
}

fn load(text: &str, seed: u64) -> Workload {
    Workload::new(&parameters(text), seed).expect("the parameters fit together")
}

/// How often each block is asked for.
fn counts(text: &str, requests: usize) -> Vec<u64> {
    let mut counts = vec![0; parameters(text).blocks.get() as usize];
    load(text, 1).take(requests).for_each(|access| counts[access.block as usize] += 1);
    counts
}

const ZIPF: &str = "blocks = 1000\npattern.zipf.exponent = 1.0";
const HOT: &str = "blocks = 1000\nwrite_percent = 30\n\
                   pattern.hot = { request_percent = 80, block_percent = 20 }";
const STREAMS: &str = "blocks = 100\npattern.sequential = { clients = 3, turn_blocks = 4 }";
const MIX: &str = "blocks = 1000\npattern.mix = [
    { weight = 3, pattern.uniform = {} },
    { weight = 1, pattern.sequential = { clients = 1, turn_blocks = 1 } },
]";

#[test]
fn a_seed_repeats_a_load_and_another_differs() {
    for text in [ZIPF, HOT, MIX] {
        let hash = |seed| {
            let mut hash = Xxh3::new();
            for Access { block, write } in load(text, seed).take(10_000) {
                hash.update(&block.to_le_bytes());
                hash.update(&[u8::from(write)]);
            }
            hash.digest()
        };
        assert_eq!(hash(1), hash(1));
        assert_ne!(hash(1), hash(2));
    }
}

#[test]
fn frequencies_are_as_asked_for() {
    let mut zipf = counts(ZIPF, 1_000_000);
    let first = zipf.iter().position(|count| zipf.iter().all(|other| other <= count));
    let next_to_it = zipf[first.expect("there is a greatest") + 1];
    zipf.sort_unstable_by(|one, other| other.cmp(one));
    assert!(next_to_it < zipf[10], "the frequent ones are spread");
    let harmonic: f64 = (1..=1000).map(|rank| 1.0 / f64::from(rank)).sum();
    for rank in [1, 2, 10, 50] {
        let expected = 1e6 / harmonic / rank as f64;
        let ratio = zipf[rank - 1] as f64 / expected;
        assert!((0.9..1.1).contains(&ratio), "{rank}: {ratio}");
    }

    let mut hot = counts(HOT, 1_000_000);
    hot.sort_unstable_by(|one, other| other.cmp(one));
    let share = hot[..200].iter().sum::<u64>() as f64 / 1e6;
    assert!((share - 0.8).abs() < 0.005, "{share}");
    let writes = load(HOT, 1).take(100_000).filter(|access| access.write).count();
    assert!((29_000..31_000).contains(&writes), "{writes}");

    let uniform = counts("blocks = 10\npattern.uniform = {}", 100_000);
    assert!(uniform.iter().all(|count| (9500..10_500).contains(count)), "{uniform:?}");
}

#[test]
fn clients_read_their_parts_in_turns() {
    let blocks: Vec<u64> = load(STREAMS, 1).take(28).map(|access| access.block).collect();
    let turns = [0, 33, 66, 4, 37, 70, 8];
    let expected: Vec<u64> = turns.iter().flat_map(|&first| first..first + 4).collect();
    assert_eq!(blocks, expected);
    assert!(load(STREAMS, 1).take(1000).all(|access| access.block < 100 && !access.write));
}

#[test]
fn a_mix_has_its_shares() {
    // Three quarters at random and a quarter in order: a block in order follows its neighbour.
    let blocks: Vec<u64> = load(MIX, 1).take(40_000).map(|access| access.block).collect();
    let mut expected = 0;
    for &block in &blocks {
        if block == expected % 1000 {
            expected += 1;
        }
    }
    assert!((9_500..11_000).contains(&expected), "{expected}");
}

#[test]
fn what_cannot_be_is_refused() {
    let refused = |text: &str| match toml::from_str::<WorkloadParameters>(text) {
        Err(error) => error.to_string(),
        Ok(parameters) => Workload::new(&parameters, 1).map(|_| ()).expect_err("refused"),
    };
    for (text, expected) in [
        ("blocks = 0\npattern.uniform = {}", "nonzero"),
        ("blocks = 5\npattern.uniform = {}\ncolour = 1", "unknown field"),
        ("blocks = 5\npattern.spiral = {}", "unknown variant"),
        ("blocks = 5\npattern.uniform = { colour = 1 }", "unexpected keys"),
        ("blocks = 5\npattern.zipf.exponent = 0", "above zero"),
        ("blocks = 5\nwrite_percent = 101\npattern.uniform = {}", "above 100"),
        ("blocks = 5\npattern.hot = { request_percent = 80, block_percent = 1 }", "0 of 5"),
        ("blocks = 5\npattern.hot = { request_percent = 100, block_percent = 20 }", "below 100"),
        ("blocks = 5\npattern.sequential = { clients = 6, turn_blocks = 1 }", "6 clients"),
        ("blocks = 5\npattern.mix = []", "no parts"),
    ] {
        let message = refused(text);
        assert!(message.contains(expected), "{text}: {message}");
    }
}
