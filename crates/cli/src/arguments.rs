use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::format::Form;
use crate::properties;

const STATUSES: &str = "Exit status: 0 done, 1 it could not be done, 2 the command line makes no \
    sense, 3 (prime) only part of it fits or could be read, 130 stopped by ctrl-C.";

/// An adaptive cache in RAM and on flash in front of storage that already exists.
///
/// `warmfront mount /slow /fast` shows the directory /slow a second time at /fast, with an ARC in
/// front of it; `--cache PATH:SIZE` adds flash. TARGET is a pool, a dataset, a mount point or any
/// path under one; without it, the one pool that is mounted is meant.
#[derive(Debug, Parser)]
#[command(name = "warmfront", version, after_help = STATUSES, arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Mount a directory, or a pool, behind the cache
    Mount(MountArguments),
    /// Unmount
    #[command(visible_alias = "umount")]
    Unmount {
        /// A mount point or a pool
        target: OsString,
        /// Detach although files are open; it ends when the last one is closed
        #[arg(long)]
        lazy: bool,
    },
    /// Make, list, show and remove pools that have settings of their own
    #[command(subcommand)]
    Pool(PoolCommand),
    /// Make a dataset: a subtree with properties of its own
    Create {
        /// Set a property on it (property=value)
        #[arg(short = 'o', value_name = "PROPERTY=VALUE", value_delimiter = ',')]
        properties: Vec<String>,
        /// Its path below the pool's top; by default its name without the pool's
        #[arg(long)]
        path: Option<PathBuf>,
        /// POOL/NAME
        dataset: String,
    },
    /// List datasets
    List {
        #[command(flatten)]
        form: Form,
        /// Only this pool's
        target: Option<OsString>,
    },
    /// Show properties, with where each value comes from
    #[command(after_long_help = properties::help())]
    Get {
        #[command(flatten)]
        form: Form,
        /// Of all datasets below as well
        #[arg(short = 'r')]
        recursive: bool,
        /// Columns, separated by commas: name, property, value, source
        #[arg(short = 'o', value_name = "COLUMNS", default_value = "name,property,value,source")]
        columns: String,
        /// `all`, or names separated by commas
        properties: String,
        /// Whose
        target: Option<OsString>,
    },
    /// Set properties; takes effect at the next access
    #[command(after_long_help = properties::help())]
    Set {
        /// property=value
        #[arg(required = true, value_name = "PROPERTY=VALUE")]
        properties: Vec<String>,
        /// The dataset
        target: OsString,
    },
    /// Take a property off a dataset, so that it is inherited again
    Inherit {
        /// And off all datasets below it
        #[arg(short = 'r')]
        recursive: bool,
        /// The property
        property: String,
        /// The dataset
        target: OsString,
    },
    /// Remove a dataset; files are not touched
    Destroy {
        /// With all datasets below it
        #[arg(short = 'r')]
        recursive: bool,
        /// POOL/NAME
        dataset: OsString,
    },
    /// Read files into the cache before the load comes
    Prime {
        /// Read at most so many bytes a second, such as 100M
        #[arg(long, value_name = "SIZE")]
        rate: Option<String>,
        /// Only say how much there is and how much of it fits
        #[arg(long)]
        dry_run: bool,
        /// JSON: for programs
        #[arg(long)]
        json: bool,
        /// Files and directories under a mount point
        #[arg(required = true)]
        paths: Vec<PathBuf>,
    },
    /// Write down what a pool is asked for, as a trace for the lab
    Record(RecordArguments),
    /// Hits and misses of a pool or of one dataset, second by second
    Arcstat(ArcstatArguments),
    /// What is asked of a pool, and what it asks of origin, flash and log, second by second
    Iostat(IntervalArguments),
    /// The last transaction groups, in which writes come to the origin
    Txgs {
        #[command(flatten)]
        form: Form,
        /// Which pool
        target: Option<OsString>,
    },
    /// Commits to the intent log of a pool, second by second
    Zil(IntervalArguments),
    /// How large the cache should be: the hit rate that each size would have
    Curve {
        #[command(flatten)]
        form: Form,
        /// Of all datasets below as well
        #[arg(short = 'r')]
        recursive: bool,
        /// Draw it into this file as well
        #[arg(long, value_name = "FILE")]
        svg: Option<PathBuf>,
        /// A dataset; the whole pool if absent
        target: Option<OsString>,
    },
    /// How a pool is
    Status {
        #[command(flatten)]
        form: Form,
        /// Which pool
        target: Option<OsString>,
    },
    /// Where a file's records are, and why
    ///
    /// HITS are accesses after the first, of the most used record of a line; at most 15 are
    /// counted, and 15+ (15 in JSON) says that there were as many or more.
    Why {
        #[command(flatten)]
        form: Form,
        /// A file under a mount point
        file: PathBuf,
    },
    /// Write down what the cache holds, for the next start; stopping does so as well
    Save {
        /// Which pool
        target: Option<OsString>,
    },
    /// Wait until the origin keeps everything that was written
    Sync {
        /// Which pool
        target: Option<OsString>,
    },
    /// Set the ceiling of a mounted pool, and wait until memory has been given back
    SetArcMax {
        /// What it never shrinks below when others need memory: bytes or a share [as it was]
        #[arg(long, value_name = "SIZE|PERCENT", allow_hyphen_values = true)]
        arc_min: Option<String>,
        /// JSON: for programs
        #[arg(long)]
        json: bool,
        /// Bytes such as 4G, a share of memory such as 25%, or auto
        size: String,
        /// Which pool
        target: Option<OsString>,
    },
    /// What on this machine, or in this mount, will be slow or not work, why, and what to do
    Doctor {
        /// JSON: for programs
        #[arg(long)]
        json: bool,
        /// Look at this mount as well
        target: Option<OsString>,
    },
    /// Look at the log of a pool, bring it to the origin or give it up, by hand
    #[command(subcommand)]
    Log(LogCommand),
    /// Try on recorded loads what a cache would do
    #[command(subcommand)]
    Lab(LabCommand),
    /// A few hundred MB of this machine's files behind a slow origin: cold, then warm
    Demo(DemoArguments),
    /// Print completions for a shell
    Completions {
        /// Which
        shell: clap_complete::Shell,
    },
    /// Print the manual page (troff)
    #[command(hide = true)]
    Manual,
}

#[derive(Debug, Args)]
pub(crate) struct MountArguments {
    /// Stay in the foreground, and log to standard error
    #[arg(short = 'f', long)]
    pub(crate) foreground: bool,
    /// Set properties of the whole pool until it is unmounted
    #[arg(short = 'o', value_name = "PROPERTY=VALUE", value_delimiter = ',')]
    pub(crate) properties: Vec<String>,
    /// RAM that everything together may take: bytes such as 4G, a share such as 25%, or auto
    /// (the default): whatever the system and other processes leave
    #[arg(long, value_name = "SIZE|PERCENT|auto", allow_hyphen_values = true)]
    pub(crate) arc_max: Option<String>,
    /// What that never shrinks below when others need memory: bytes or a share
    #[arg(long, value_name = "SIZE|PERCENT", allow_hyphen_values = true)]
    pub(crate) arc_min: Option<String>,
    /// Refuse every change
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Let other users use the mount as well
    #[arg(long)]
    pub(crate) allow_other: bool,
    /// Slow the origin down to a model, to try things out: hdd, nfs or s3
    #[arg(long, value_name = "MODEL")]
    pub(crate) slow: Option<String>,
    /// Reads by processes in this control group do not count as use and are not kept, as with
    /// promote=off: for backups; may be given several times
    #[arg(long = "no-promote-cgroup", value_name = "PATH")]
    pub(crate) no_promote_cgroups: Vec<PathBuf>,
    /// A cache device: a block device, or a file, which is made with the size behind the colon;
    /// may be given several times
    #[arg(long = "cache", value_name = "PATH[:SIZE]")]
    pub(crate) caches: Vec<String>,
    /// Take cache devices whatever lies on them
    #[arg(long)]
    pub(crate) force_cache: bool,
    /// A log device: fsync waits for it instead of the origin. A block device, or a file, which is
    /// made with the size behind the colon [default: 1G]
    #[arg(long, value_name = "PATH[:SIZE]")]
    pub(crate) log: Option<String>,
    /// Go on without the writes that a log holds which is lost, damaged or not wanted
    #[arg(long)]
    pub(crate) discard_log: bool,
    /// Take the log device whatever lies on it
    #[arg(long, requires = "log")]
    pub(crate) force_log: bool,
    /// Do not bring back what an earlier mount has written down of names and hot records
    #[arg(long)]
    pub(crate) cold: bool,
    /// Drive writes a day that cache devices are meant for, or none for no limit [default: 1]
    #[arg(long, value_name = "NUMBER|none", allow_negative_numbers = true)]
    pub(crate) dwpd: Option<String>,
    /// Encrypt cache devices: a file with 32 random bytes, or each-start for a key that nobody
    /// keeps, so that they start empty each time
    #[arg(long, value_name = "FILE|each-start")]
    pub(crate) cache_key: Option<String>,
    /// A directory, or a pool made with `pool create`
    #[arg(value_name = "ORIGIN|POOL")]
    pub(crate) source: OsString,
    /// An empty directory; by default where the pool's settings say
    pub(crate) mountpoint: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PoolCommand {
    /// Make a pool: one commented TOML file
    Create {
        /// Set a property of the whole pool
        #[arg(short = 'o', value_name = "PROPERTY=VALUE", value_delimiter = ',')]
        properties: Vec<String>,
        /// Where it is mounted unless told otherwise
        #[arg(short = 'm', long, value_name = "PATH")]
        mountpoint: Option<PathBuf>,
        /// RAM that everything together may take
        #[arg(long, value_name = "SIZE|PERCENT|auto", allow_hyphen_values = true)]
        arc_max: Option<String>,
        /// What that never shrinks below when others need memory
        #[arg(long, value_name = "SIZE|PERCENT", allow_hyphen_values = true)]
        arc_min: Option<String>,
        /// A cache device; may be given several times
        #[arg(long = "cache", value_name = "PATH[:SIZE]")]
        caches: Vec<String>,
        /// A log device
        #[arg(long, value_name = "PATH[:SIZE]")]
        log: Option<String>,
        /// Its name
        name: String,
        /// The directory that it stands in front of
        origin: PathBuf,
    },
    /// List pools, mounted or not
    List {
        #[command(flatten)]
        form: Form,
    },
    /// How pools are
    Status {
        #[command(flatten)]
        form: Form,
        /// Which pool; all that are mounted if absent
        pool: Option<OsString>,
    },
    /// As `warmfront iostat`
    Iostat(IntervalArguments),
    /// Give a pool a cache or log device, mounted or not
    Add {
        /// Take it whatever lies on it
        #[arg(long)]
        force: bool,
        /// Which pool
        pool: String,
        /// What the device is for
        role: DeviceRole,
        /// A block device, or a file, which is made with the size behind the colon
        #[arg(value_name = "PATH[:SIZE]")]
        device: String,
    },
    /// Take a cache or log device from a pool; what it holds is not used again
    Remove {
        /// Which pool
        pool: String,
        /// What the device is for
        role: DeviceRole,
        /// The device
        path: PathBuf,
    },
    /// Remove a pool's settings and what is noted of it; files and devices are not touched
    Destroy {
        /// Also if its log may hold writes that are not at the origin: these are given up
        #[arg(short = 'f', long)]
        force: bool,
        /// Which
        name: String,
    },
}

/// What a device is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DeviceRole {
    /// Keeps copies of what the origin holds
    Cache,
    /// Makes fsync quick
    Log,
}

#[derive(Debug, Args)]
pub(crate) struct ArcstatArguments {
    /// All columns
    #[arg(short = 'a')]
    pub(crate) all: bool,
    /// Hits by list, ghost hits and evictions
    #[arg(short = 'x')]
    pub(crate) extended: bool,
    /// Prefetching
    #[arg(short = 'z')]
    pub(crate) prefetch: bool,
    /// Cache devices
    #[arg(short = 'l')]
    pub(crate) flash: bool,
    /// List the columns there are
    #[arg(short = 'v')]
    pub(crate) list: bool,
    #[command(flatten)]
    pub(crate) samples: SampleArguments,
    /// Write to this file
    #[arg(short = 'o', value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// What stands between columns
    #[arg(short = 's', value_name = "TEXT", default_value = "  ")]
    pub(crate) separator: String,
    /// Seconds between samples, how many of them, and whose
    #[arg(value_name = "[TARGET] [INTERVAL [COUNT]]", num_args = 0..=3)]
    pub(crate) words: Vec<OsString>,
}

/// How samples are shown.
#[derive(Debug, Clone, Args)]
pub(crate) struct SampleArguments {
    /// No headings, columns separated by tabs: for scripts
    #[arg(short = 'H')]
    pub(crate) script: bool,
    /// Exact numbers instead of rounded ones
    #[arg(short = 'p')]
    pub(crate) exact: bool,
    /// These columns of those that `warmfront arcstat -v` lists, separated by commas
    #[arg(short = 'f', value_name = "COLUMNS")]
    pub(crate) columns: Option<String>,
    /// JSON, a line for each sample
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct IntervalArguments {
    #[command(flatten)]
    pub(crate) samples: SampleArguments,
    /// Seconds between samples, how many of them, and of which pool
    #[arg(value_name = "[POOL] [INTERVAL [COUNT]]", num_args = 0..=3)]
    pub(crate) words: Vec<OsString>,
}

/// Write down what a pool is asked for, as a trace for the lab.
///
/// Times, places and lengths of reads and writes are recorded, and for each file a number that
/// means nothing outside of the recording: neither names nor contents. What the kernel answers from
/// its page cache does not come here. Ctrl-C ends it.
#[derive(Debug, Args)]
pub(crate) struct RecordArguments {
    /// Record this share of all contents; the lab then simulates caches that are as much smaller
    #[arg(long, value_name = "PERCENT", default_value = "100")]
    pub(crate) sample: String,
    /// End after so many seconds
    #[arg(long, value_name = "SECONDS")]
    pub(crate) seconds: Option<u64>,
    /// End when the file is so large
    #[arg(long, value_name = "SIZE", default_value = "1G")]
    pub(crate) size: String,
    /// The file to write; it must not exist
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Which pool
    pub(crate) target: Option<OsString>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LogCommand {
    /// Show what it holds that the origin may not have: a line for each record
    Show {
        #[command(flatten)]
        form: Form,
        /// A pool that is not mounted, its origin, or a log device
        #[arg(value_name = "POOL|PATH")]
        target: OsString,
    },
    /// Bring what it holds to the origin; mounting does so as well
    Replay {
        /// Also a log that looks like an older copy, such as one that another machine has written
        #[arg(long)]
        force: bool,
        /// Where the origin's directory is, if it has moved or is not known
        #[arg(long, value_name = "DIRECTORY")]
        origin: Option<PathBuf>,
        /// A pool that is not mounted, its origin, or its log device
        #[arg(value_name = "POOL|PATH")]
        target: OsString,
    },
    /// Give up what it holds
    Discard {
        /// JSON: for programs
        #[arg(long)]
        json: bool,
        /// A pool that is not mounted, its origin, or a log device
        #[arg(value_name = "POOL|PATH")]
        target: OsString,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// Replay a trace through policies at several sizes
    Policies(PoliciesArguments),
    /// Find the cheapest RAM, flash and disks for a recorded load
    Size(Box<SizeArguments>),
    /// Show the experiments
    List,
    /// Repeat on models what the sources report
    Run(ExperimentArguments),
}

/// Repeat on models what the sources report.
///
/// Devices are modelled on virtual time, so that the same experiment finds the same figures
/// wherever it runs.
#[derive(Debug, Args)]
pub(crate) struct ExperimentArguments {
    /// All of them
    #[arg(long, conflicts_with = "names")]
    pub(crate) all: bool,
    /// CSV: for programs
    #[arg(long)]
    pub(crate) csv: bool,
    /// Markdown: what docs/experiments.md is made of
    #[arg(long, conflicts_with = "csv")]
    pub(crate) markdown: bool,
    /// Write one HTML page with figures, pictures and what they mean
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Which, as `warmfront lab list` shows them, or a TOML file with one of your own
    #[arg(required_unless_present = "all", value_name = "NAME")]
    pub(crate) names: Vec<String>,
}

/// Replay a trace through policies at several sizes.
///
/// Every run starts empty and makes all requests of the trace, reads and writes alike. The trace
/// may be compressed with zstd, gzip or xz. Its format is recognised, except for bare numbers
/// (u32le, u32be, u64le, u64be), which a part of the file's name may tell, as in x.u32le.zst.
#[derive(Debug, Args)]
pub(crate) struct PoliciesArguments {
    /// arc, lirs, vscsi, oracle-general, ssdsim, u32le, u32be, u64le, u64be, csv, recording,
    /// blkparse, fio-iolog or fio-log
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<String>,
    /// Which, separated by commas
    #[arg(
        long,
        value_name = "POLICIES",
        default_value = "lru,list-arc,car,2q,lirs,s3-fifo,sieve,w-tinylfu,arc,auto,min"
    )]
    pub(crate) policies: String,
    /// Shares of the distinct blocks or bytes (5%), bytes (512M) or blocks (1000b)
    #[arg(long, value_name = "SIZES", default_value = "1%,5%,10%,25%", allow_hyphen_values = true)]
    pub(crate) sizes: String,
    /// Pay headers, ghosts and index out of the size; blocks are records of 4 KiB
    #[arg(long)]
    pub(crate) charge: bool,
    /// JSON, an array of rows: for programs
    #[arg(long, conflicts_with = "markdown")]
    pub(crate) json: bool,
    /// Tables in Markdown, for documents
    #[arg(long)]
    pub(crate) markdown: bool,
    /// Draw miss ratios over sizes into this SVG file; of several traces, how far each policy is
    /// behind the best
    #[arg(long, value_name = "FILE")]
    pub(crate) plot: Option<PathBuf>,
    /// Recorded loads; where the format cannot be recognised and differs, as FORMAT:PATH
    #[arg(required = true, value_name = "TRACE")]
    pub(crate) traces: Vec<String>,
}

/// Find the cheapest RAM, flash and disks for a recorded load.
///
/// Tries every size of RAM with every size of flash, number of disks, policy and record size. What
/// is found where comes from replaying the trace, or a sample of it; how long devices take comes
/// from their models, as for reads at random places. Reads and writes of a trace count alike.
#[derive(Debug, Args)]
pub(crate) struct SizeArguments {
    /// As for `warmfront lab policies`
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<String>,
    /// Sizes of RAM, separated by commas: shares of the data (5%), bytes (512M) or blocks (1000b)
    #[arg(
        long,
        value_name = "SIZES",
        default_value = "1%,2%,5%,10%,20%,50%,100%",
        allow_hyphen_values = true
    )]
    pub(crate) ram: String,
    /// Sizes of flash, in the same way; none is without
    #[arg(
        long,
        value_name = "SIZES",
        default_value = "none,10%,20%,50%,100%,150%",
        allow_hyphen_values = true
    )]
    pub(crate) flash: String,
    /// Models of flash, separated by commas
    #[arg(long, value_name = "NAMES", default_value = "nvme")]
    pub(crate) flash_devices: String,
    /// The model of the disks
    #[arg(long, value_name = "NAME", default_value = "nearline-7200")]
    pub(crate) disk: String,
    /// Numbers of disks, separated by commas
    #[arg(long, value_name = "NUMBERS", default_value = "1", allow_hyphen_values = true)]
    pub(crate) disks: String,
    /// Policies of RAM: lru, arc or auto
    #[arg(long, value_name = "POLICIES", default_value = "auto")]
    pub(crate) policies: String,
    /// Record sizes, separated by commas; the blocks of the trace, but at least 4K, without
    #[arg(long, value_name = "SIZES", allow_hyphen_values = true)]
    pub(crate) records: Option<String>,
    /// Requests a second; without it one comes after the other
    #[arg(long, value_name = "NUMBER", allow_hyphen_values = true)]
    pub(crate) rate: Option<String>,
    /// Find the cheapest that responds within so much on average, such as 2ms
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) response: Option<String>,
    /// Find the quickest, or the cheapest that responds in time, for so much money at most
    #[arg(long, value_name = "MONEY", allow_hyphen_values = true)]
    pub(crate) budget: Option<String>,
    /// Simulate this share of the data; without it, as much as takes seconds
    #[arg(long, value_name = "PERCENT", allow_hyphen_values = true)]
    pub(crate) sample: Option<String>,
    /// TOML with prices, instead of those that come with the lab
    #[arg(long, value_name = "FILE")]
    pub(crate) prices: Option<PathBuf>,
    /// Show all that was tried, not only what is worth its price
    #[arg(long)]
    pub(crate) all: bool,
    /// JSON, with all that was tried: for programs
    #[arg(long)]
    pub(crate) json: bool,
    /// Draw responses over prices into this SVG file
    #[arg(long, value_name = "FILE")]
    pub(crate) plot: Option<PathBuf>,
    /// A recorded load; where the format cannot be recognised, as FORMAT:PATH
    #[arg(value_name = "TRACE")]
    pub(crate) trace: String,
}

#[derive(Debug, Args)]
pub(crate) struct DemoArguments {
    /// How slow the origin is: hdd, nfs or s3
    #[arg(long, value_name = "MODEL", default_value = "hdd")]
    pub(crate) slow: String,
    /// Bytes of files to take
    #[arg(long, value_name = "SIZE", default_value = "256M")]
    pub(crate) size: String,
    /// Run through the library, as where FUSE cannot be had
    #[arg(long)]
    pub(crate) library: bool,
    /// JSON: for programs
    #[arg(long)]
    pub(crate) json: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn several_settings_come_before_the_target() {
        let words = ["warmfront", "set", "prefetch=none", "recordsize=16K", "slow/db"];
        let Command::Set { properties, target } =
            Arguments::try_parse_from(words).expect("well formed").command
        else {
            panic!("it is a set");
        };
        assert_eq!(properties, ["prefetch=none", "recordsize=16K"]);
        assert_eq!(target, "slow/db");
        assert!(Arguments::try_parse_from(["warmfront", "set", "prefetch=none"]).is_err());
    }

    #[test]
    fn mount_takes_its_options() {
        let words = [
            "warmfront",
            "mount",
            "-f",
            "-o",
            "prefetch=none,pagecache=on",
            "--arc-max",
            "1G",
            "/a",
            "/b",
        ];
        let Command::Mount(mount) = Arguments::try_parse_from(words).expect("well formed").command
        else {
            panic!("it is a mount");
        };
        assert!(mount.foreground && !mount.read_only);
        assert_eq!(mount.properties, ["prefetch=none", "pagecache=on"]);
        assert_eq!(mount.mountpoint, Some(PathBuf::from("/b")));
    }
}
