use std::fmt;
use std::str::FromStr;

use arc::{DenseIndex, HashIndex, PolicyKind};

use super::{
    Car, Lirs, ListArc, Lru, Min, Objects, Policy, S3Fifo, Shipped, Sieve, TwoQ, WTinyLfu,
};
use crate::trace::Trace;

/// A policy that can be replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PolicyName {
    /// [`Lru`].
    Lru,
    /// [`ListArc`].
    ListArc,
    /// [`Car`].
    Car,
    /// [`TwoQ`].
    TwoQ,
    /// [`Lirs`].
    Lirs,
    /// [`S3Fifo`].
    S3Fifo,
    /// [`Sieve`].
    Sieve,
    /// [`WTinyLfu`].
    WTinyLfu,
    /// [`Shipped`], with the rules of ARC.
    Arc,
    /// [`Shipped`], with the setting that does best on a sample.
    Auto,
    /// [`Min`].
    Min,
}

impl PolicyName {
    /// All policies, the optimum last.
    pub const ALL: [PolicyName; 11] = [
        PolicyName::Lru,
        PolicyName::ListArc,
        PolicyName::Car,
        PolicyName::TwoQ,
        PolicyName::Lirs,
        PolicyName::S3Fifo,
        PolicyName::Sieve,
        PolicyName::WTinyLfu,
        PolicyName::Arc,
        PolicyName::Auto,
        PolicyName::Min,
    ];

    /// As it is named on a command line.
    pub const fn name(self) -> &'static str {
        match self {
            PolicyName::Lru => "lru",
            PolicyName::ListArc => "list-arc",
            PolicyName::Car => "car",
            PolicyName::TwoQ => "2q",
            PolicyName::Lirs => "lirs",
            PolicyName::S3Fifo => "s3-fifo",
            PolicyName::Sieve => "sieve",
            PolicyName::WTinyLfu => "w-tinylfu",
            PolicyName::Arc => PolicyKind::Arc.name(),
            PolicyName::Auto => PolicyKind::Auto.name(),
            PolicyName::Min => "min",
        }
    }

    /// Whether it decides without knowing what is to come.
    pub const fn is_online(self) -> bool {
        !matches!(self, PolicyName::Min)
    }

    /// Whether it is what Warmfront ships, with headers, ghosts and index of its own to charge.
    pub const fn is_shipped(self) -> bool {
        matches!(self, PolicyName::Arc | PolicyName::Auto)
    }

    /// An empty cache for the objects of a trace.
    pub(crate) fn build<'a>(
        self,
        capacity: u64,
        objects: &Objects,
        charge_overhead: bool,
        trace: &'a Trace,
    ) -> Box<dyn Policy + 'a> {
        match self {
            PolicyName::Lru => Box::new(Lru::new(capacity, objects)),
            PolicyName::ListArc => Box::new(ListArc::new(capacity, objects)),
            PolicyName::Car => Box::new(Car::new(capacity, objects)),
            PolicyName::TwoQ => Box::new(TwoQ::new(capacity, objects)),
            PolicyName::Lirs => Box::new(Lirs::new(capacity, objects)),
            PolicyName::S3Fifo => Box::new(S3Fifo::new(capacity, objects)),
            PolicyName::Sieve => Box::new(Sieve::new(capacity, objects)),
            PolicyName::WTinyLfu => Box::new(WTinyLfu::new(capacity, objects)),
            PolicyName::Arc => Box::new(Shipped::<DenseIndex>::new(
                PolicyKind::Arc,
                capacity,
                objects,
                charge_overhead,
            )),
            PolicyName::Auto => Box::new(Shipped::<HashIndex>::new(
                PolicyKind::Auto,
                capacity,
                objects,
                charge_overhead,
            )),
            PolicyName::Min => Box::new(Min::new(capacity, objects, trace)),
        }
    }
}

impl fmt::Display for PolicyName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// A name that no policy has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no policy `{0}`; there are {names}",
    names = PolicyName::ALL.map(PolicyName::name).join(", ")
)]
pub struct UnknownPolicy(String);

impl FromStr for PolicyName {
    type Err = UnknownPolicy;

    fn from_str(text: &str) -> Result<PolicyName, UnknownPolicy> {
        let policy = PolicyName::ALL.into_iter().find(|policy| policy.name() == text);
        policy.ok_or_else(|| UnknownPolicy(text.to_string()))
    }
}
