use rand::TryRng;
use rand_distr::{Distribution, Zipf};
use storage::Random;

use super::{PatternParameters, Share, unit};

/// How deep mixes may contain mixes.
const DEPTH_MAX: u32 = 8;

/// What draws the next block.
#[derive(Debug)]
pub(super) enum Pattern {
    Uniform { blocks: u64 },
    Zipf { ranks: Zipf<f64>, spread: Spread },
    Hot { request_share: f64, hot: u64, spread: Spread },
    Sequential { blocks: u64, clients: u64, turn_blocks: u64, step: u64 },
    Mix { ends: Vec<u64>, parts: Vec<Pattern> },
}

impl Pattern {
    pub fn new(parameters: &PatternParameters, blocks: u64) -> Result<Pattern, String> {
        Pattern::nested(parameters, blocks, 0)
    }

    fn nested(parameters: &PatternParameters, blocks: u64, depth: u32) -> Result<Pattern, String> {
        Ok(match parameters {
            PatternParameters::Uniform {} => Pattern::Uniform { blocks },
            PatternParameters::Zipf { exponent } => Pattern::Zipf {
                ranks: Zipf::new(blocks as f64, exponent.get())
                    .map_err(|error| format!("no load follows Zipf's law so: {error}"))?,
                spread: Spread::new(blocks),
            },
            PatternParameters::Hot { request_percent, block_percent } => {
                let percents = [request_percent.get(), block_percent.get()];
                if percents.iter().any(|&percent| percent >= 100.0) {
                    return Err(format!(
                        "request_percent and block_percent are {percents:?}, and must be below 100"
                    ));
                }
                let hot = (blocks as f64 * percents[1] / 100.0).round() as u64;
                if hot == 0 || hot == blocks {
                    return Err(format!(
                        "block_percent makes {hot} of {blocks} blocks hot; take more blocks"
                    ));
                }
                let request_share = percents[0] / 100.0;
                Pattern::Hot { request_share, hot, spread: Spread::new(blocks) }
            }
            PatternParameters::Sequential { clients, turn_blocks } => {
                let (clients, turn_blocks) = (u64::from(clients.get()), turn_blocks.get().into());
                if clients > blocks {
                    return Err(format!("{clients} clients share {blocks} blocks; take more"));
                }
                Pattern::Sequential { blocks, clients, turn_blocks, step: 0 }
            }
            PatternParameters::Mix(shares) if depth < DEPTH_MAX => {
                let pattern = |share: &Share| Pattern::nested(&share.pattern, blocks, depth + 1);
                let parts = shares.iter().map(pattern).collect::<Result<Vec<_>, _>>()?;
                let ends = shares.iter().scan(0, |end, share| {
                    *end += u64::from(share.weight.get());
                    Some(*end)
                });
                let ends: Vec<u64> = ends.collect();
                match ends.is_empty() {
                    true => return Err("a mix has no parts; it needs one".to_string()),
                    false => Pattern::Mix { ends, parts },
                }
            }
            PatternParameters::Mix(_) => {
                return Err(format!("mixes contain mixes more than {DEPTH_MAX} deep"));
            }
        })
    }

    pub fn draw(&mut self, random: &mut Random) -> u64 {
        match self {
            Pattern::Uniform { blocks } => random.below(*blocks),
            Pattern::Zipf { ranks, spread } => {
                spread.place(ranks.sample(&mut Source(random)) as u64 - 1)
            }
            Pattern::Hot { request_share, hot, spread } => {
                let rank = match unit(random) < *request_share {
                    true => random.below(*hot),
                    false => *hot + random.below(spread.blocks - *hot),
                };
                spread.place(rank)
            }
            Pattern::Sequential { blocks, clients, turn_blocks, step } => {
                let (turn, within) = (*step / *turn_blocks, *step % *turn_blocks);
                *step += 1;
                let (client, round) = (turn % *clients, turn / *clients);
                let part = *blocks / *clients;
                client * part + (round * *turn_blocks + within) % part
            }
            Pattern::Mix { ends, parts } => {
                let drawn = random.below(*ends.last().expect("a mix has parts"));
                parts[ends.partition_point(|&end| end <= drawn)].draw(random)
            }
        }
    }
}

/// Ranks over blocks, each on one of its own, with neighbours apart.
#[derive(Debug)]
pub(super) struct Spread {
    blocks: u64,
    factor: u64,
}

impl Spread {
    fn new(blocks: u64) -> Spread {
        // About the golden section, and without a common divisor, so that no two meet.
        let mut factor = ((blocks as f64 * 0.618_033_988_749) as u64).max(1);
        while common_divisor(factor, blocks) != 1 {
            factor += 1;
        }
        Spread { blocks, factor }
    }

    fn place(&self, rank: u64) -> u64 {
        (u128::from(rank) * u128::from(self.factor) % u128::from(self.blocks)) as u64
    }
}

fn common_divisor(mut one: u64, mut other: u64) -> u64 {
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one
}

/// The project's random numbers, for the library.
pub(crate) struct Source<'a>(pub &'a mut Random);

impl TryRng for Source<'_> {
    type Error = std::convert::Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
        Ok((self.0.draw() >> 32) as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
        Ok(self.0.draw())
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Self::Error> {
        for part in bytes.chunks_mut(8) {
            part.copy_from_slice(&self.0.draw().to_le_bytes()[..part.len()]);
        }
        Ok(())
    }
}
