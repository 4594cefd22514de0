use std::fmt;
use std::time::Duration;

use arc::{Class, PolicyKind};
use l2arc::Compression;
use serde::Serialize;

use crate::size::{ExactSize, Size, parse_size, parse_size_or_percent};

/// What of a dataset is kept in RAM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheLevel {
    /// Contents and metadata.
    All,
    /// Only metadata.
    Metadata,
    /// Nothing.
    None,
}

/// What of a dataset is kept on flash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlashContents {
    /// Contents and metadata.
    All,
    /// Only metadata.
    Metadata,
    /// Only contents.
    Data,
    /// Nothing.
    None,
}

impl FlashContents {
    /// Whether records of a class are kept.
    pub(crate) fn takes(self, class: Class) -> bool {
        match self {
            FlashContents::All => true,
            FlashContents::Metadata => class == Class::Metadata,
            FlashContents::Data => class == Class::Data,
            FlashContents::None => false,
        }
    }
}

/// What is fetched before it is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrefetchLevel {
    /// Contents ahead of sequential readers, and attributes ahead of readers of directories.
    All,
    /// Only attributes.
    Metadata,
    /// Nothing.
    None,
}

/// When it is checked whether somebody else has changed the origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coherence {
    /// Never: nobody else writes.
    Exclusive,
    /// At each open.
    Open,
    /// When the last check is older than this.
    Ttl(Duration),
}

/// When what is written comes to the origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteMode {
    /// With a transaction group, some seconds later.
    Back,
    /// Before the write returns.
    Through,
    /// As [`Through`](WriteMode::Through), and it is not kept in RAM.
    Around,
}

/// What is made to last, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncMode {
    /// What `fsync` and its relatives ask for.
    Standard,
    /// Every change, before it is acknowledged.
    Always,
    /// Nothing before its transaction group is committed.
    Disabled,
}

/// How an `fsync` is made to last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogBias {
    /// By the log device.
    Latency,
    /// By the origin: the log device is spared.
    Throughput,
}

/// What becomes of writers whose data the origin does not take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailMode {
    /// They wait.
    Wait,
    /// They are told why.
    Continue,
}

/// The effective properties of a dataset.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Properties {
    /// What is kept in RAM.
    pub primarycache: CacheLevel,
    /// Bytes in a record.
    pub recordsize: u64,
    /// What is fetched before it is asked for.
    pub prefetch: PrefetchLevel,
    /// Whether records are let go behind a sequential reader.
    pub freebehind: bool,
    /// Bytes that are fetched ahead of a sequential reader at most.
    pub readahead: u64,
    /// When it is checked whether somebody else has changed the origin.
    pub coherence: Coherence,
    /// Whether reads bypass the page cache below us.
    pub directio: bool,
    /// Whether the kernel may keep pages above us.
    pub pagecache: bool,
    /// Whether what is read counts as use, and is kept.
    pub promote: bool,
    /// RAM that others cannot take.
    pub arcreserve: Option<Size>,
    /// RAM that it cannot exceed.
    pub arclimit: Option<Size>,
    /// The rules by which its records are kept.
    pub policy: PolicyKind,
    /// What is kept on flash.
    pub secondarycache: FlashContents,
    /// Whether what came ahead and was read once is kept on flash.
    pub l2prefetch: bool,
    /// Whether only what was used again is kept on flash.
    pub l2mfuonly: bool,
    /// Flash that others cannot take.
    pub l2reserve: Option<Size>,
    /// Flash that the dataset cannot exceed.
    pub l2limit: Option<Size>,
    /// How what lies on flash is made smaller.
    pub compression: Compression,
    /// When what is written comes to the origin.
    pub write: WriteMode,
    /// What is made to last, and when.
    pub sync: SyncMode,
    /// How an `fsync` is made to last.
    pub logbias: LogBias,
    /// What becomes of writers whose data the origin does not take.
    pub failmode: FailMode,
    /// Whether the origin is not asked to flush.
    pub nocacheflush: bool,
}

/// One property: its name, values, default, words, and how it is set.
#[derive(Debug)]
pub struct Property {
    /// Name.
    pub name: &'static str,
    /// The values that it takes, as a pattern for people.
    pub values: &'static str,
    /// The value where nothing is set.
    pub default: &'static str,
    /// What it decides, in one line.
    pub help: &'static str,
    /// What it decides, in full.
    pub long_help: &'static str,
    /// Whether datasets below have the value too, unless they have one of their own.
    pub inherited: bool,
    /// Values that it takes, written as they are shown again.
    pub examples: &'static [&'static str],
    /// Values that it does not take, though they look like it.
    pub refused: &'static [&'static str],
    apply: fn(&str, &mut Properties) -> Option<()>,
    show: fn(&Properties) -> String,
}

/// Why a property was not set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PropertyError {
    /// There is no property of that name.
    #[error("there is no property `{name}`{}; the properties are {}",
        nearest(name, PROPERTIES.iter().map(|property| property.name)), names())]
    Unknown {
        /// The name.
        name: String,
    },
    /// The property does not take that value.
    #[error("`{value}` is not a value of {property}{suggestion}; it takes {values}")]
    Value {
        /// The property.
        property: &'static str,
        /// The value.
        value: String,
        /// The values that it takes.
        values: &'static str,
        /// The nearest of them, as words to be added.
        suggestion: String,
    },
    /// A setting without a value.
    #[error("`{text}` is not a setting; write it as property=value")]
    Form {
        /// The text.
        text: String,
    },
}

fn on_off(value: &str) -> Option<bool> {
    match value {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    }
}

fn show_on_off(value: bool) -> String {
    if value { "on" } else { "off" }.to_string()
}

/// A part of the ARC: `none`, bytes, or a share of the ceiling.
fn share(value: &str) -> Option<Option<Size>> {
    if value == "none" {
        return Some(None);
    }
    let size = parse_size_or_percent(value).ok()?;
    let is_sane = !matches!(size, Size::Bytes(bytes) if bytes < SHARE_BYTES_MIN);
    is_sane.then_some(Some(size))
}

fn show_share(share: Option<Size>) -> String {
    share.map_or("none".to_string(), |size| size.to_string())
}

/// All properties.
pub const PROPERTIES: &[Property] = &[
    Property {
        name: "primarycache",
        values: "all|metadata|none",
        default: "all",
        help: "what is kept in RAM",
        long_help: "What is kept in RAM: file contents and metadata, only metadata (attributes, \
            names, listings, link targets, extended attributes), or nothing. What is not kept is \
            read from the origin each time, one whole record at a time: set recordsize to what \
            the application reads first.",
        inherited: true,
        examples: &["all", "metadata", "none"],
        refused: &["", "All", "data", "on"],
        apply: |value, properties| {
            properties.primarycache = match value {
                "all" => CacheLevel::All,
                "metadata" => CacheLevel::Metadata,
                "none" => CacheLevel::None,
                _ => return None,
            };
            Some(())
        },
        show: |properties| properties.primarycache.to_string(),
    },
    Property {
        name: "recordsize",
        values: "a size that is a power of two from 4K to 1M, such as 16K or 128K",
        default: "128K",
        help: "bytes in a record, the unit of reading and caching",
        long_help: "Bytes in a record, the unit of reading from the origin and of caching. Large \
            records suit files that are read in sequence; a database is best served with its own \
            page size. A change drops what is cached of the files concerned.",
        inherited: true,
        examples: &["4K", "16K", "128K", "1M"],
        refused: &["", "0", "2K", "3K", "5000", "2M", "12Q"],
        apply: |value, properties| {
            let bytes = parse_size(value).ok()?;
            let fits = bytes.is_power_of_two() && (4096..=1 << 20).contains(&bytes);
            properties.recordsize = fits.then_some(bytes)?;
            Some(())
        },
        show: |properties| ExactSize(properties.recordsize).to_string(),
    },
    Property {
        name: "prefetch",
        values: "all|metadata|none",
        default: "all",
        help: "what is fetched before it is asked for",
        long_help: "What is fetched before it is asked for: contents ahead of sequential readers \
            and attributes ahead of readers of directories, only attributes, or nothing.",
        inherited: true,
        examples: &["all", "metadata", "none"],
        refused: &["", "some", "off"],
        apply: |value, properties| {
            properties.prefetch = match value {
                "all" => PrefetchLevel::All,
                "metadata" => PrefetchLevel::Metadata,
                "none" => PrefetchLevel::None,
                _ => return None,
            };
            Some(())
        },
        show: |properties| {
            match properties.prefetch {
                PrefetchLevel::All => "all",
                PrefetchLevel::Metadata => "metadata",
                PrefetchLevel::None => "none",
            }
            .to_string()
        },
    },
    Property {
        name: "freebehind",
        values: "on|off",
        default: "off",
        help: "let go of what a sequential reader has passed",
        long_help: "Whether the records that a sequential reader has passed are let go at once, \
            so that a stream does not push other things out of the cache. As freebehind of UFS.",
        inherited: true,
        examples: &["on", "off"],
        refused: &["", "true", "1"],
        apply: |value, properties| {
            properties.freebehind = on_off(value)?;
            Some(())
        },
        show: |properties| show_on_off(properties.freebehind),
    },
    Property {
        name: "readahead",
        values: "a size from 0 (off) to 64M, such as 8M",
        default: "8M",
        help: "bytes that are fetched ahead of a sequential reader at most",
        long_help: "How far ahead of a sequential reader contents are fetched at most. The \
            distance starts small and grows only as long as reads still have to wait.",
        inherited: true,
        examples: &["0", "1500000", "8M", "64M"],
        refused: &["", "65M", "-1", "far"],
        apply: |value, properties| {
            properties.readahead = parse_size(value).ok().filter(|bytes| *bytes <= 64 << 20)?;
            Some(())
        },
        show: |properties| ExactSize(properties.readahead).to_string(),
    },
    Property {
        name: "coherence",
        values: "exclusive|open|ttl=SECONDS, with seconds from 0 up, such as ttl=5",
        default: "open",
        help: "when it is checked whether somebody else has changed the origin",
        long_help: "When it is checked whether somebody else has changed the origin: never, \
            because nobody else writes to it; at each open of a file or directory; or when the \
            last check is older than so many seconds.",
        inherited: true,
        examples: &["exclusive", "open", "ttl=0", "ttl=2.5", "ttl=60"],
        refused: &["", "ttl", "ttl=", "ttl=-1", "ttl=soon", "ttl=NaN", "ttl=inf", "exclusive=1"],
        apply: |value, properties| {
            properties.coherence = match value.split_once('=') {
                None if value == "exclusive" => Coherence::Exclusive,
                None if value == "open" => Coherence::Open,
                Some(("ttl", seconds)) => {
                    let seconds: f64 = seconds.parse().ok()?;
                    let sane = (0.0..=TTL_SECONDS_MAX).contains(&seconds);
                    Coherence::Ttl(Duration::from_secs_f64(sane.then_some(seconds)?))
                }
                _ => return None,
            };
            Some(())
        },
        show: |properties| properties.coherence.to_string(),
    },
    Property {
        name: "directio",
        values: "on|off",
        default: "on",
        help: "read the origin past the kernel's page cache",
        long_help: "Whether the origin is read with O_DIRECT, where its file system can, so that \
            the kernel does not keep a second copy of what the ARC keeps. As forcedirectio of UFS.",
        inherited: true,
        examples: &["on", "off"],
        refused: &["", "yes"],
        apply: |value, properties| {
            properties.directio = on_off(value)?;
            Some(())
        },
        show: |properties| show_on_off(properties.directio),
    },
    Property {
        name: "pagecache",
        values: "on|off",
        default: "off",
        help: "let the kernel keep pages above the ARC",
        long_help: "Whether the kernel may keep pages of files above the ARC. Repeated reads then \
            run at the speed of local files, but hot data is held twice, outside the ceiling, and \
            the ARC does not see those reads.",
        inherited: true,
        examples: &["on", "off"],
        refused: &["", "7"],
        apply: |value, properties| {
            properties.pagecache = on_off(value)?;
            Some(())
        },
        show: |properties| show_on_off(properties.pagecache),
    },
    Property {
        name: "promote",
        values: "on|off",
        default: "on",
        help: "let what is read count as use, and keep it",
        long_help: "Whether what is read counts as use and is kept. With off, reads find what is \
            cached but do not make it look hot, and what is missing passes by: for backups, \
            virus scans and whatever else reads everything once. Priming still brings in.",
        inherited: true,
        examples: &["on", "off"],
        refused: &["", "no", "0"],
        apply: |value, properties| {
            properties.promote = on_off(value)?;
            Some(())
        },
        show: |properties| show_on_off(properties.promote),
    },
    Property {
        name: "arcreserve",
        values: "none, a size from 1M, or a share of the ceiling such as 25%",
        default: "none",
        help: "RAM that other datasets cannot take",
        long_help: "Bytes of the ARC, with headers and ghosts, that others cannot take from this \
            dataset and those below it that have no arcreserve, arclimit or policy of their own. \
            What is not used serves others. Not inherited, as ZFS's reservation. While the \
            ceiling is too small for all reserves, each gives in proportion.",
        inherited: false,
        examples: &["none", "1M", "1536M", "25%", "12.5%"],
        refused: &["", "0", "4K", "0%", "101%", "-1", "all"],
        apply: |value, properties| {
            properties.arcreserve = share(value)?;
            Some(())
        },
        show: |properties| show_share(properties.arcreserve),
    },
    Property {
        name: "arclimit",
        values: "none, a size from 1M, or a share of the ceiling such as 25%",
        default: "none",
        help: "RAM that the dataset cannot exceed",
        long_help: "Bytes of the ARC, with headers and ghosts, that this dataset and those below \
            it that have no arcreserve, arclimit or policy of their own cannot exceed. One record \
            may take an eighth of it. Not inherited, as ZFS's quota.",
        inherited: false,
        examples: &["none", "8M", "4G", "50%", "100%"],
        refused: &["", "0", "1023K", "0%", "200%", "-1", "unlimited"],
        apply: |value, properties| {
            properties.arclimit = share(value)?;
            Some(())
        },
        show: |properties| show_share(properties.arclimit),
    },
    Property {
        name: "policy",
        values: "auto|arc",
        default: "auto",
        help: "rules by which records are kept",
        long_help: "Rules by which records are kept. With auto, small shadows of the cache try \
            four settings on a sample of the load, and the best is in force (`warmfront why` and \
            `arcstat -f set` tell which); with arc, ARC as published, in its clock form. A dataset \
            with arc, and those below it that have neither policy, arcreserve nor arclimit of \
            their own, have lists of their own in the cache. Not inherited.",
        inherited: false,
        examples: &["auto", "arc"],
        refused: &["", "lru", "ARC", "on"],
        apply: |value, properties| {
            properties.policy = PolicyKind::ALL.into_iter().find(|kind| kind.name() == value)?;
            Some(())
        },
        show: |properties| properties.policy.name().to_string(),
    },
    Property {
        name: "secondarycache",
        values: "all|metadata|data|none",
        default: "all",
        help: "what is kept on flash",
        long_help: "What cache devices take in: file contents and metadata, one of the two, or \
            nothing. It does not depend on primarycache: with primarycache=metadata and \
            secondarycache=all, contents are kept on flash only. What is there already is served \
            until it is overwritten.",
        inherited: true,
        examples: &["all", "metadata", "data", "none"],
        refused: &["", "All", "on"],
        apply: |value, properties| {
            properties.secondarycache = match value {
                "all" => FlashContents::All,
                "metadata" => FlashContents::Metadata,
                "data" => FlashContents::Data,
                "none" => FlashContents::None,
                _ => return None,
            };
            Some(())
        },
        show: |properties| {
            match properties.secondarycache {
                FlashContents::All => "all",
                FlashContents::Metadata => "metadata",
                FlashContents::Data => "data",
                FlashContents::None => "none",
            }
            .to_string()
        },
    },
    Property {
        name: "l2prefetch",
        values: "on|off",
        default: "on",
        help: "keep on flash what was prefetched and read once",
        long_help: "Whether cache devices take in what was fetched ahead of a sequential reader \
            and read once since. With off, streams stay away from flash, as with \
            l2arc_noprefetch=1 of ZFS. With on they get there while the devices are not full yet, \
            and afterwards when they come a second time; a device that is slower than the origin \
            is not asked in any case.",
        inherited: true,
        examples: &["on", "off"],
        refused: &["", "1"],
        apply: |value, properties| {
            properties.l2prefetch = on_off(value)?;
            Some(())
        },
        show: |properties| show_on_off(properties.l2prefetch),
    },
    Property {
        name: "l2mfuonly",
        values: "on|off",
        default: "off",
        help: "keep on flash only what was used again",
        long_help: "Whether cache devices take in only what stands among the frequently used \
            records of the ARC, as with l2arc_mfuonly of ZFS.",
        inherited: true,
        examples: &["on", "off"],
        refused: &["", "2"],
        apply: |value, properties| {
            properties.l2mfuonly = on_off(value)?;
            Some(())
        },
        show: |properties| show_on_off(properties.l2mfuonly),
    },
    Property {
        name: "l2reserve",
        values: "none, a size from 1M, or a share of the cache devices such as 25%",
        default: "none",
        help: "flash that other datasets cannot take",
        long_help: "Bytes on the cache devices, with headers, that others cannot take from this \
            dataset: what would be overwritten of it is written anew while it has less, as far as \
            the wear budget allows. Datasets below it are not counted, and have reserves of their \
            own. Where all reserves are more than the devices can keep, each is cut in \
            proportion. Not inherited.",
        inherited: false,
        examples: &["none", "8M", "4G", "25%"],
        refused: &["", "0", "1023K", "0%", "200%", "-1", "all"],
        apply: |value, properties| {
            properties.l2reserve = share(value)?;
            Some(())
        },
        show: |properties| show_share(properties.l2reserve),
    },
    Property {
        name: "l2limit",
        values: "none, a size from 1M, or a share of the cache devices such as 25%",
        default: "none",
        help: "flash that the dataset cannot exceed",
        long_help: "Bytes on the cache devices, with headers, that this dataset cannot exceed. \
            Datasets below it are not counted, and have limits of their own. Not inherited.",
        inherited: false,
        examples: &["none", "8M", "4G", "50%", "100%"],
        refused: &["", "0", "1023K", "0%", "200%", "-1", "unlimited"],
        apply: |value, properties| {
            properties.l2limit = share(value)?;
            Some(())
        },
        show: |properties| show_share(properties.l2limit),
    },
    Property {
        name: "compression",
        values: "off|lz4|zstd",
        default: "lz4",
        help: "how what lies on flash is made smaller",
        long_help: "How the contents of records are made smaller before cache devices take them \
            in. What would not become smaller is kept as it is. In RAM nothing is compressed, and \
            the origin is never touched.",
        inherited: true,
        examples: &["off", "lz4", "zstd"],
        refused: &["", "on", "gzip", "LZ4"],
        apply: |value, properties| {
            properties.compression = match value {
                "off" => Compression::Off,
                "lz4" => Compression::Lz4,
                "zstd" => Compression::Zstd,
                _ => return None,
            };
            Some(())
        },
        show: |properties| {
            match properties.compression {
                Compression::Lz4 => "lz4",
                Compression::Zstd => "zstd",
                _ => "off",
            }
            .to_string()
        },
    },
    Property {
        name: "write",
        values: "back|through|around",
        default: "back",
        help: "when what is written comes to the origin",
        long_help: "When what is written comes to the origin. With back, a write is acknowledged \
            as soon as it is in RAM, and comes to the origin within some seconds, in large pieces \
            and in order; fsync makes it last at once. Unless coherence=exclusive, a file is \
            written out when it is closed, so that whoever opens it next at the origin sees it. \
            With through, each write comes to the origin before it is acknowledged; with around, \
            in addition nothing of it is kept in RAM.",
        inherited: true,
        examples: &["back", "through", "around"],
        refused: &["", "Back", "on", "behind"],
        apply: |value, properties| {
            properties.write = match value {
                "back" => WriteMode::Back,
                "through" => WriteMode::Through,
                "around" => WriteMode::Around,
                _ => return None,
            };
            Some(())
        },
        show: |properties| {
            match properties.write {
                WriteMode::Back => "back",
                WriteMode::Through => "through",
                WriteMode::Around => "around",
            }
            .to_string()
        },
    },
    Property {
        name: "sync",
        values: "standard|always|disabled",
        default: "standard",
        help: "what is made to last at once",
        long_help: "What is made to last at once: with standard, what fsync and its relatives ask \
            for; with always, every write and every change of a name before it is acknowledged; \
            with disabled, nothing: fsync returns at once, and a crash loses the last seconds of \
            work, also of programs that have asked for better.",
        inherited: true,
        examples: &["standard", "always", "disabled"],
        refused: &["", "on", "off"],
        apply: |value, properties| {
            properties.sync = match value {
                "standard" => SyncMode::Standard,
                "always" => SyncMode::Always,
                "disabled" => SyncMode::Disabled,
                _ => return None,
            };
            Some(())
        },
        show: |properties| {
            match properties.sync {
                SyncMode::Standard => "standard",
                SyncMode::Always => "always",
                SyncMode::Disabled => "disabled",
            }
            .to_string()
        },
    },
    Property {
        name: "logbias",
        values: "latency|throughput",
        default: "latency",
        help: "whether fsync uses the log device",
        long_help: "How an fsync is made to last: with latency by the log device, if there is one; \
            with throughput by the origin, so that data which is not urgent leaves the log device \
            to what is.",
        inherited: true,
        examples: &["latency", "throughput"],
        refused: &["", "on"],
        apply: |value, properties| {
            properties.logbias = match value {
                "latency" => LogBias::Latency,
                "throughput" => LogBias::Throughput,
                _ => return None,
            };
            Some(())
        },
        show: |properties| {
            match properties.logbias {
                LogBias::Latency => "latency",
                LogBias::Throughput => "throughput",
            }
            .to_string()
        },
    },
    Property {
        name: "failmode",
        values: "wait|continue",
        default: "wait",
        help: "what becomes of writers whose data the origin does not take",
        long_help: "What becomes of writers while the origin takes no data and there is no room \
            for more in RAM: with wait they wait, five minutes at most; with continue they get the \
            origin's error at once. What has been taken is kept in either case, and tried again.",
        inherited: true,
        examples: &["wait", "continue"],
        refused: &["", "panic"],
        apply: |value, properties| {
            properties.failmode = match value {
                "wait" => FailMode::Wait,
                "continue" => FailMode::Continue,
                _ => return None,
            };
            Some(())
        },
        show: |properties| {
            match properties.failmode {
                FailMode::Wait => "wait",
                FailMode::Continue => "continue",
            }
            .to_string()
        },
    },
    Property {
        name: "nocacheflush",
        values: "on|off",
        default: "off",
        help: "do not ask the origin to flush",
        long_help: "Whether what the origin has taken counts as safe without asking it to flush. \
            Only for origins that protect what they have taken, such as a file server with a \
            battery behind its cache: before a local disk, a loss of power then loses data that \
            programs were told is safe.",
        inherited: true,
        examples: &["on", "off"],
        refused: &["", "yes"],
        apply: |value, properties| {
            properties.nocacheflush = on_off(value)?;
            Some(())
        },
        show: |properties| show_on_off(properties.nocacheflush),
    },
];

/// Least bytes that can be reserved, or allowed.
const SHARE_BYTES_MIN: u64 = 1 << 20;

/// The longest trust that `coherence=ttl=` can give: a year.
const TTL_SECONDS_MAX: f64 = 366.0 * 24.0 * 3600.0;

impl Property {
    /// The property of that name.
    ///
    /// # Errors
    /// [`PropertyError::Unknown`], which lists the names there are.
    pub fn by_name(name: &str) -> Result<&'static Property, PropertyError> {
        PROPERTIES
            .iter()
            .find(|property| property.name == name)
            .ok_or_else(|| PropertyError::Unknown { name: name.to_string() })
    }

    /// Sets the property among the others.
    ///
    /// # Errors
    /// [`PropertyError::Value`], which lists the values there are.
    pub fn apply(&self, value: &str, properties: &mut Properties) -> Result<(), PropertyError> {
        (self.apply)(value, properties).ok_or_else(|| PropertyError::Value {
            property: self.name,
            value: value.to_string(),
            values: self.values,
            suggestion: nearest(value, self.values.split('|').filter(|known| self.takes(known))),
        })
    }

    /// Whether it takes the value.
    pub fn takes(&self, value: &str) -> bool {
        (self.apply)(value, &mut Properties::default()).is_some()
    }

    /// The value, as it may be given again.
    pub fn show(&self, properties: &Properties) -> String {
        (self.show)(properties)
    }
}

/// Reads `property=value`, checking both.
///
/// # Errors
/// When there is no such property or value.
pub fn parse_setting(text: &str) -> Result<(&'static Property, String), PropertyError> {
    let (name, value) =
        text.split_once('=').ok_or_else(|| PropertyError::Form { text: text.to_string() })?;
    let property = Property::by_name(name.trim())?;
    let value = value.trim();
    property.apply(value, &mut Properties::default())?;
    Ok((property, value.to_string()))
}

impl Default for Properties {
    fn default() -> Properties {
        let mut properties = Properties {
            primarycache: CacheLevel::All,
            recordsize: 128 << 10,
            prefetch: PrefetchLevel::All,
            freebehind: false,
            readahead: 0,
            coherence: Coherence::Open,
            directio: true,
            pagecache: false,
            promote: true,
            arcreserve: None,
            arclimit: None,
            policy: PolicyKind::Auto,
            secondarycache: FlashContents::All,
            l2prefetch: true,
            l2mfuonly: false,
            l2reserve: None,
            l2limit: None,
            compression: Compression::Off,
            write: WriteMode::Back,
            sync: SyncMode::Standard,
            logbias: LogBias::Latency,
            failmode: FailMode::Wait,
            nocacheflush: false,
        };
        for property in PROPERTIES {
            property
                .apply(property.default, &mut properties)
                .expect("the default of a property is one of its values");
        }
        properties
    }
}

impl fmt::Display for CacheLevel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            CacheLevel::All => "all",
            CacheLevel::Metadata => "metadata",
            CacheLevel::None => "none",
        })
    }
}

impl fmt::Display for Coherence {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Coherence::Exclusive => formatter.write_str("exclusive"),
            Coherence::Open => formatter.write_str("open"),
            Coherence::Ttl(ttl) => write!(formatter, "ttl={}", ttl.as_secs_f64()),
        }
    }
}

impl Serialize for Property {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;
        let mut fields = serializer.serialize_struct("Property", 6)?;
        fields.serialize_field("name", self.name)?;
        fields.serialize_field("values", self.values)?;
        fields.serialize_field("default", self.default)?;
        fields.serialize_field("help", self.help)?;
        fields.serialize_field("long_help", self.long_help)?;
        fields.serialize_field("inherited", &self.inherited)?;
        fields.end()
    }
}

/// Least likeness at which a name is suggested.
const LIKENESS_MIN: f64 = 0.7;

/// The candidate that looks most like `name`, as words to be added to a message; nothing if none
/// does.
pub fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> String {
    candidates
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate))
        .filter(|(likeness, _)| *likeness >= LIKENESS_MIN)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map_or(String::new(), |(_, candidate)| format!(" (did you mean `{candidate}`?)"))
}

fn names() -> String {
    PROPERTIES.iter().map(|property| property.name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_property_takes_its_default_and_shows_it() {
        let properties = Properties::default();
        for property in PROPERTIES {
            assert_eq!(property.show(&properties), property.default, "{}", property.name);
        }
    }

    #[test]
    fn values_are_taken_and_shown_again() {
        for property in PROPERTIES {
            for value in property.examples {
                let mut properties = Properties::default();
                property.apply(value, &mut properties).expect("an example is a value");
                assert_eq!(property.show(&properties), *value, "{}", property.name);
            }
            for value in property.refused {
                let error = property.apply(value, &mut Properties::default());
                let error = error.expect_err("this is no value").to_string();
                assert!(error.contains(property.values), "{error}");
            }
            assert!(!property.examples.is_empty() && !property.refused.is_empty());
        }
    }

    #[test]
    fn wrong_names_and_values_are_told_with_the_right_ones() {
        let error = parse_setting("primarycahe=all").expect_err("misspelt").to_string();
        assert!(error.contains("did you mean `primarycache`?"), "{error}");
        let error = parse_setting("primarycache=metdata").expect_err("misspelt").to_string();
        assert!(error.contains("did you mean `metadata`?"), "{error}");
        assert!(error.contains("all|metadata|none"), "{error}");
        let error = parse_setting("recordsize=12Q").expect_err("no unit").to_string();
        assert!(!error.contains("did you mean"), "{error}");
        assert!(parse_setting("primarycache").is_err());
    }
}
