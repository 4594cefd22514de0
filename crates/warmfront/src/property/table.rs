use std::time::Duration;

use arc::PolicyKind;
use l2arc::Compression;

use super::{
    CacheLevel, Coherence, FailMode, FlashContents, LogBias, PrefetchLevel, Property, SyncMode,
    WriteMode,
};
use crate::share::SHARE_BYTES_MIN;
use crate::size::{ExactSize, Size, parse_size, parse_size_or_percent};

/// The longest trust that `coherence=ttl=` can give: a year.
const TTL_SECONDS_MAX: f64 = 366.0 * 24.0 * 3600.0;

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
///
/// ```
/// for property in warmfront::PROPERTIES {
///     println!("{:<16} {}", property.name, property.values);
/// }
/// ```
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
            page size. What is cached of the files concerned is of no use after a change, and goes \
            as room is needed.",
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
            the ARC does not see those reads. Without effect under coherence=ttl=S, where contents \
            have to be asked about between two reads.",
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
            dataset and those below it that have no arcreserve, arclimit or other policy of their \
            own. What is not used serves others. Not inherited, as ZFS's reservation. While the \
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
            it that have no arcreserve, arclimit or other policy of their own cannot exceed. One \
            record may take an eighth of it: with a larger recordsize contents are not kept. Not \
            inherited, as ZFS's quota.",
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
            with another policy than the one above it has lists of its own in the cache, which \
            those below it share that have neither another policy, arcreserve nor arclimit.",
        inherited: true,
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
        show: |properties| properties.secondarycache.to_string(),
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
            origin's error at once. An origin that does not answer at all counts as one that \
            refuses after a minute. What has been taken is kept in either case, and tried again.",
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
