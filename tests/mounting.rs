//! The life of a mount, and what the command tells about it.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, ErrorKind};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::Value;
use warmfront_tests::{
    Background, Compare, Mount, Place, Program, Requirement, Warmfront, copy_tree, counter,
    difference, fill, is_mounted, origin_calls, require, source_tree, test_directory, wait_until,
};

/// Without `-f` the command comes back when the mount answers, having said what there is to know.
#[test]
fn in_the_background() {
    require!(Requirement::Fuse);
    let base = test_directory();
    let (slow, fast) = (base.path().join("slow"), base.path().join("fast"));
    fs::create_dir(&slow).unwrap();
    fs::create_dir(&fast).unwrap();
    fill(&slow.join("file"), 1, 1000);
    let warmfront = Warmfront::new();
    let mount = warmfront.program(["mount", "--arc-max", "64M"]).arg(&slow).arg(&fast);
    let told = mount.run().success();
    let seen = fs::read(fast.join("file")).map(|bytes| bytes.len());
    let status = warmfront.status(&fast);
    let gone = warmfront.program(["unmount"]).arg(&fast).run();
    assert_eq!(seen.expect("the mount answers when the command is back"), 1000);
    for fragment in [
        slow.to_str().expect("a plain path"),
        fast.to_str().expect("a plain path"),
        "64",
        "warmfront arcstat",
        "warmfront unmount",
    ] {
        assert!(told.contains(fragment), "{fragment} is not in the first output:\n{told}");
    }
    gone.success();
    assert!(!is_mounted(&fast));
    let daemon = counter(&status, "pid");
    let ended = || !Path::new(&format!("/proc/{daemon}")).exists();
    assert!(wait_until(Duration::from_secs(10), ended), "the daemon is still there");
}

#[test]
fn the_status_names_the_daemon() {
    require!(Requirement::Fuse);
    let mut mount = Mount::new();
    assert_eq!(mount.counter("pid"), u64::from(mount.daemon_id()));
    let told = mount.run(&["status"]);
    assert!(told.contains(mount.origin().to_str().unwrap()), "{told}");
    mount.unmount();
}

/// The kernel gives the number of a mount that has ended to the next one: what a killed daemon has
/// left behind does not hide the one that lives.
#[test]
fn a_mount_in_the_place_of_a_dead_one_is_unmounted() {
    require!(Requirement::Fuse);
    let mut mount = Mount::new();
    mount.kill();
    let other = test_directory();
    let origin = other.path().join("zzz");
    fs::create_dir(&origin).expect("a directory");
    let program = mount.warmfront().program(["mount", "--arc-max=64M"]);
    program.arg(&origin).arg(mount.path()).run().success();
    let status = mount.warmfront().status(mount.path());
    assert_eq!(status["pool"], "zzz");
    mount.warmfront().program(["unmount"]).arg(mount.path()).run().success();
    assert!(!is_mounted(mount.path()));
}

#[test]
fn a_second_daemon_is_refused() {
    require!(Requirement::Fuse);
    let mut mount = Mount::new();
    fill(&mount.origin().join("file"), 1, 1000);
    let elsewhere = test_directory();
    let second = mount.warmfront().program(["mount", "-f"]).arg(mount.origin());
    let owner = mount.daemon_id().to_string();
    second.arg(elsewhere.path()).run().fails_with(1, &[&owner]);
    assert!(!is_mounted(elsewhere.path()));
    assert_eq!(fs::read(mount.join("file")).unwrap().len(), 1000, "the first goes on");
    mount.unmount();
}

/// A program that holds the file at `path` open.
fn holder(path: &Path) -> Background {
    let file = File::open(path).expect("the file opens");
    Background::start(Program::new("sleep").arg("600"), file.into())
}

#[test]
fn unmounting_what_is_in_use_is_refused() {
    require!(Requirement::Fuse);
    let mut mount = Mount::new();
    fill(&mount.origin().join("file"), 1, 1000);
    let holder = holder(&mount.join("file"));
    let id = holder.id().to_string();
    let unmount = mount.warmfront().program(["unmount"]).arg(mount.path());
    unmount.run().fails_with(1, &[&id, "sleep", "--lazy"]);
    assert_eq!(fs::read(mount.join("file")).unwrap().len(), 1000, "the mount goes on");
    drop(holder);
    mount.unmount();
}

#[test]
fn a_lazy_unmount_detaches_at_once() {
    require!(Requirement::Fuse);
    let mut mount = Mount::new();
    let expected = fill(&mount.origin().join("file"), 1, 1000);
    let mut held = File::open(mount.join("file")).unwrap();
    mount.run(&["unmount", "--lazy"]);
    assert!(!is_mounted(mount.path()));
    assert_eq!(fs::read_dir(mount.path()).unwrap().count(), 0);
    let asked = mount.warmfront().program(["status"]).arg(mount.path()).run();
    let (id, pool) = (mount.daemon_id().to_string(), "warmfront status slow");
    asked.fails_with(1, &["was detached", &id, "last file that is open", pool]);
    mount.warmfront().run(["status", "slow"]);
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut held, &mut bytes).expect("what is open stays readable");
    assert!(bytes == expected);
    drop(held);
    mount.wait_for_end();
}

#[test]
fn read_only() {
    require!(Requirement::Fuse);
    let base = test_directory();
    fs::create_dir(base.path().join("slow")).unwrap();
    let expected = fill(&base.path().join("slow/file"), 1, 300_000);
    let mut mount = Mount::builder().base(base).argument("--read-only").start();
    assert!(fs::read(mount.join("file")).unwrap() == expected);
    let refused = [
        fs::write(mount.join("new"), "new"),
        File::options().append(true).open(mount.join("file")).map(drop),
        fs::create_dir(mount.join("directory")),
        fs::remove_file(mount.join("file")),
        fs::rename(mount.join("file"), mount.join("other")),
        fs::set_permissions(mount.join("file"), PermissionsExt::from_mode(0o600)),
    ];
    for (index, result) in refused.into_iter().enumerate() {
        let error = result.expect_err("nothing may be changed");
        assert_eq!(error.kind(), ErrorKind::ReadOnlyFilesystem, "change {index}");
    }
    mount.unmount();
}

/// A tree that nobody made for a test: thousands of files, links and directories of all sizes.
#[test]
fn a_real_tree_is_identical() {
    require!(Requirement::Fuse);
    let origin = Path::new("/usr/share");
    let mut mount = Mount::builder()
        .origin(origin)
        .property("coherence", "exclusive")
        .argument("--arc-max=1G")
        .argument("--read-only")
        .start();
    let what = Compare { times: true, xattrs: true };
    for pass in ["cold", "warm"] {
        let found = difference(mount.path(), origin, what);
        assert!(found.is_empty(), "{pass}: {found:#?}");
    }
    let list = |top: &Path| {
        let format = "%P %y %m %U %G %n %s %T@ %l\\n";
        let find = Program::new("find").arg(top).args(["-mindepth", "1", "-printf", format]);
        let listed = find.deadline(Duration::from_secs(120)).run().success();
        let mut lines: Vec<String> = listed.lines().map(str::to_string).collect();
        lines.sort();
        lines
    };
    let listed = list(mount.path());
    assert!(listed == list(origin), "find does not agree");
    assert!(listed.len() > 1000, "{} has too few files to tell much", origin.display());
    mount.unmount();
}

/// Starting looks at the root, not at what lies below it.
#[test]
fn a_start_does_not_walk_the_tree() {
    require!(Requirement::Fuse);
    let base = test_directory();
    for directory in 0..50 {
        let path = base.path().join(format!("slow/{directory}"));
        fs::create_dir_all(&path).unwrap();
        for file in 0..200 {
            File::create(path.join(file.to_string())).unwrap();
        }
    }
    let mut mount = Mount::builder().base(base).start();
    let calls = origin_calls(&mount.status());
    assert!(calls < 30, "{calls} calls to the origin");
    assert_eq!(fs::read_dir(mount.join("7")).unwrap().count(), 200);
    mount.unmount();
}

/// Ticks of processor time that process `id` has used, and switches of its threads.
fn processor_time(id: u32) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{id}/task")).expect("the process runs");
    tasks
        .map(|task| {
            let path = task.expect("the process runs").path().join("schedstat");
            let text = fs::read_to_string(path).expect("the kernel tells times");
            text.split(' ').next().and_then(|field| field.parse::<u64>().ok()).expect("a time")
        })
        .sum()
}

#[test]
fn idle_uses_no_processor() {
    require!(Requirement::Fuse);
    let mut mount = Mount::new();
    fill(&mount.origin().join("file"), 1, 4 << 20);
    fs::read(mount.join("file")).unwrap();
    // What the read set in motion has ended by then.
    std::thread::sleep(Duration::from_millis(500));
    let before = processor_time(mount.daemon_id());
    std::thread::sleep(Duration::from_secs(2));
    let used = Duration::from_nanos(processor_time(mount.daemon_id()) - before);
    assert!(used < Duration::from_millis(2), "{used:?} of processor time in two idle seconds");
    mount.unmount();
}

/// The value and the source that `get` prints for one property.
fn property(mount: &Mount, name: &str, target: &Path) -> (String, String) {
    let told = mount.warmfront().program(["get", "-H", name]).arg(target).run().success();
    let fields: Vec<&str> = told.trim_end().split('\t').collect();
    let [_, _, value, source] = fields[..] else { panic!("not four columns: {told}") };
    (value.to_string(), source.to_string())
}

#[test]
fn properties_act_while_mounted() {
    require!(Requirement::Fuse);
    let mut mount = Mount::builder().property("pagecache", "off").start();
    fill(&mount.origin().join("file"), 1, 1 << 20);
    let target = mount.path().to_path_buf();
    let reads = || {
        let before = mount.counter("origin_read_bytes");
        fs::read(mount.join("file")).unwrap();
        mount.counter("origin_read_bytes") - before
    };
    assert_eq!(property(&mount, "primarycache", &target), ("all".into(), "default".into()));
    assert_eq!(property(&mount, "pagecache", &target), ("off".into(), "local".into()));
    assert_eq!((reads(), reads()), (1 << 20, 0), "kept");
    mount.run(&["set", "primarycache=metadata"]);
    assert_eq!(property(&mount, "primarycache", &target), ("metadata".into(), "local".into()));
    fill(&mount.origin().join("file"), 2, 1 << 20);
    assert!(reads() >= 1 << 20 && reads() >= 1 << 20, "kept in spite of primarycache=metadata");
    mount.run(&["inherit", "primarycache"]);
    assert_eq!(property(&mount, "primarycache", &target), ("all".into(), "default".into()));
    reads();
    assert_eq!(reads(), 0, "not kept in spite of primarycache=all");
    let all = mount.run(&["get", "all"]);
    assert!(all.lines().next().is_some_and(|line| {
        line.split_whitespace().eq(["NAME", "PROPERTY", "VALUE", "SOURCE"])
    }));
    for name in ["primarycache", "recordsize", "prefetch", "freebehind", "readahead", "coherence"] {
        assert!(all.contains(name), "{name} is not in\n{all}");
    }
    mount.unmount();
}

#[test]
fn datasets_inherit() {
    require!(Requirement::Fuse);
    let mut mount = Mount::builder().property("pagecache", "off").start();
    let (cached, passed) = (mount.origin().join("cached"), mount.origin().join("scratch"));
    for directory in [&cached, &passed] {
        fs::create_dir(directory).unwrap();
        fill(&directory.join("file"), 1, 1 << 20);
    }
    let told = mount.run(&["list", "-H"]);
    let pool = told.split('\t').next().expect("a name").trim().to_string();
    let dataset = format!("{pool}/scratch");
    mount.warmfront().run(["create", "-o", "primarycache=none", &dataset]);
    let scratch = mount.join("scratch");
    assert_eq!(property(&mount, "primarycache", &scratch), ("none".into(), "local".into()));
    let (value, source) = property(&mount, "pagecache", &scratch);
    assert_eq!(value, "off");
    assert!(source.starts_with("inherited from"), "{source}");
    for (directory, kept) in [("cached", true), ("scratch", false)] {
        let path = mount.join(directory).join("file");
        fs::read(&path).unwrap();
        let before = mount.counter("origin_read_bytes");
        fs::read(&path).unwrap();
        let again = mount.counter("origin_read_bytes") - before;
        assert_eq!(again == 0, kept, "{directory}: {again} bytes the second time");
    }
    let list = mount.run(&["list"]);
    assert!(list.contains(&dataset), "{list}");
    mount.warmfront().run(["destroy", &dataset]);
    assert!(!mount.run(&["list"]).contains(&dataset));
    assert!(scratch.join("file").exists(), "destroying a dataset leaves the files alone");
    mount.unmount();
}

#[test]
fn pools_are_kept_in_a_file() {
    require!(Requirement::Fuse);
    let base = test_directory();
    let slow = base.path().join("slow");
    fs::create_dir(&slow).unwrap();
    fill(&slow.join("file"), 1, 1000);
    let warmfront = Warmfront::new();
    warmfront.program(["pool", "create", "tank"]).arg(&slow).run().success();
    let list = warmfront.run(["pool", "list"]);
    assert!(list.contains("tank") && list.contains(slow.to_str().unwrap()), "{list}");
    let again = warmfront.program(["pool", "create", "tank"]).arg(&slow).run();
    again.fails_with(1, &["tank", "exists"]);
    warmfront.run(["set", "primarycache=metadata", "tank"]);
    let value = warmfront.run(["get", "-H", "primarycache", "tank"]);
    assert_eq!(value.trim_end().split('\t').nth(2), Some("metadata"), "{value}");
    warmfront.run(["pool", "status", "tank"]);
    warmfront.run(["pool", "destroy", "tank"]);
    assert!(!warmfront.run(["pool", "list"]).contains("tank"));
    assert!(slow.join("file").exists(), "destroying a pool leaves the files alone");
}

#[test]
fn a_named_pool_is_mounted_by_its_name() {
    require!(Requirement::Fuse);
    let base = test_directory();
    let (slow, fast) = (base.path().join("slow"), base.path().join("fast"));
    fs::create_dir(&slow).unwrap();
    fs::create_dir(&fast).unwrap();
    fill(&slow.join("file"), 1, 1000);
    let warmfront = Warmfront::new();
    warmfront.program(["pool", "create", "tank"]).arg(&slow).run().success();
    warmfront.run(["set", "recordsize=64K", "tank"]);
    warmfront.program(["mount", "tank"]).arg(&fast).run().success();
    let seen = fs::read(fast.join("file")).map(|bytes| bytes.len());
    let value = warmfront.program(["get", "-H", "recordsize"]).arg(&fast).run();
    warmfront.program(["unmount", "tank"]).run().success();
    assert_eq!(seen.expect("it is mounted"), 1000);
    let value = value.success();
    assert_eq!(value.split('\t').nth(2), Some("64K"), "{value}");
    assert!(!is_mounted(&fast));
}

#[test]
fn arcstat_counts() {
    require!(Requirement::Fuse);
    let mut mount = Mount::builder().property("pagecache", "off").start();
    fill(&mount.origin().join("file"), 1, 4 << 20);
    for _ in 0..3 {
        fs::read(mount.join("file")).unwrap();
    }
    let told = mount.run(&["arcstat"]);
    let lines: Vec<&str> = told.lines().collect();
    for column in ["time", "read", "ddh%"] {
        assert!(lines[0].split_whitespace().any(|it| it == column), "no {column} in\n{told}");
    }
    assert!(lines.len() >= 2, "{told}");
    let mut repeated = mount.warmfront().program(["arcstat"]).arg(mount.path());
    repeated = repeated.args(["1", "3"]);
    let told = repeated.run().success();
    assert!(told.lines().filter(|line| !line.contains("ddh%")).count() >= 3, "{told}");
    mount.unmount();
}

#[test]
fn iostat_counts_what_goes_through_the_mount_and_below_it() {
    require!(Requirement::Fuse);
    let base = test_directory();
    let log = format!("--log={}:32M", base.path().join("log").display());
    let builder = Mount::builder().base(base).property("pagecache", "off").argument(&log);
    let mut mount = builder.start();
    fill(&mount.origin().join("file"), 1, 1 << 20);
    fs::read(mount.join("file")).unwrap();
    let file = fs::File::create(mount.join("new")).unwrap();
    for block in 0..3 {
        file.write_all_at(&[1; 4096], block * 4096).unwrap();
        file.sync_all().unwrap();
    }
    let iostat = |words: &[&str]| {
        mount.warmfront().program(["iostat"]).arg(mount.path()).args(words).run().success()
    };
    let now: Value = serde_json::from_str(&iostat(&["--json"])).unwrap();
    for column in ["rd", "rbytes", "wr", "wbytes", "oread", "orbytes", "zwrite", "zwbytes"] {
        assert!(now[column].as_f64().unwrap() > 0.0, "{column} in {now}");
    }
    assert!(now["commit"].as_f64().unwrap() > 0.0 && now["batch"].as_f64().unwrap() >= 1.0);
    assert!(now["cp50"].as_f64() <= now["cp99"].as_f64(), "{now}");
    assert!(now["txg"].as_u64().unwrap() >= 1 && now["age"].is_u64(), "{now}");
    assert!(["open", "quiescing", "syncing"].contains(&now["state"].as_str().unwrap()), "{now}");
    let told = iostat(&["0.2", "3"]);
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines.len(), 4, "{told}");
    assert!(lines.iter().all(|line| line.len() == lines[0].len()), "aligned: {told}");
    assert!(lines[0].contains("cp99") && !lines[0].contains("l2hits"), "no flash: {told}");
    drop(file);
    mount.unmount();
}

/// What is printed again and again ends with the mount, and says whether that was unmounted.
#[test]
fn what_is_printed_again_and_again_ends_with_the_mount() {
    require!(Requirement::Fuse);
    let mut mount = Mount::builder().start();
    let watch = |mount: &Mount| {
        let watch = |command: &&str| {
            let program = mount.warmfront().program([command]).arg(mount.path()).arg("0.1");
            let mut program = program.into_command();
            program.stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut child = program.spawn().unwrap();
            // The heading, and the first line: it is under way.
            let mut output = BufReader::new(child.stdout.as_mut().unwrap());
            let mut line = String::new();
            (0..2).for_each(|_| assert!(output.read_line(&mut line).unwrap() > 0, "{line}"));
            child
        };
        ["arcstat", "iostat", "zil"].iter().map(watch).collect::<Vec<Child>>()
    };
    let end = |children: Vec<Child>, code, words: &str| {
        for child in children {
            let ended = child.wait_with_output().unwrap();
            let said = String::from_utf8_lossy(&ended.stderr);
            assert_eq!(ended.status.code(), Some(code), "{said}");
            assert!(said.contains(words), "{said}");
        }
    };
    let children = watch(&mount);
    mount.unmount();
    end(children, 0, "was unmounted");
    mount.restart(&[]);
    let children = watch(&mount);
    mount.kill();
    end(children, 1, "has died");
    mount.restart(&[]);
    mount.unmount();
}

#[test]
fn why_tells_where_records_are() {
    require!(Requirement::Fuse);
    let mut mount = Mount::builder().property("pagecache", "off").start();
    fill(&mount.origin().join("file"), 1, 300_000);
    let file = mount.join("file");
    let why = || mount.warmfront().program(["why"]).arg(&file).run().success();
    let cold = why();
    fs::read(&file).unwrap();
    let warm = why();
    assert!(cold != warm, "{cold}");
    assert!(warm.to_lowercase().contains("mru") || warm.to_lowercase().contains("mfu"), "{warm}");
    mount.unmount();
}

#[test]
fn priming_fills_the_cache() {
    require!(Requirement::Fuse);
    let mut mount = Mount::builder().property("pagecache", "off").start();
    copy_tree(&source_tree().join("crates"), &mount.origin().join("tree"));
    fill(&mount.origin().join("large"), 1, 8 << 20);
    let prime = |arguments: &[&str]| {
        mount.warmfront().program(["prime"]).args(arguments).arg(mount.path()).run()
    };
    let before = mount.counter("origin_read_bytes");
    prime(&["--dry-run"]).success();
    assert_eq!(mount.counter("origin_read_bytes"), before, "a dry run read contents");
    prime(&[]).success();
    let primed = mount.counter("origin_reads");
    assert!(mount.counter("origin_read_bytes") - before >= 8 << 20);
    let what = Compare { times: true, xattrs: true };
    let found = difference(mount.path(), mount.origin(), what);
    assert!(found.is_empty(), "{found:#?}");
    assert_eq!(mount.counter("origin_reads"), primed, "what was primed was read again");
    prime(&[]).success();
    assert_eq!(mount.counter("origin_reads"), primed, "priming what is there read it again");
    mount.unmount();
}

/// More than fits is said, with how much does fit, and the ceiling holds.
#[test]
fn priming_says_what_does_not_fit() {
    require!(Requirement::Fuse);
    let mut mount = Mount::builder().property("pagecache", "off").argument("--arc-max=16M").start();
    for seed in 0..6 {
        fill(&mount.origin().join(format!("file-{seed}")), seed, 8 << 20);
    }
    let told = mount.warmfront().program(["prime"]).arg(mount.path()).run();
    let text = format!("{}{}", told.stdout, told.stderr);
    assert!(text.contains("fit"), "{told}");
    assert!(mount.counter("size") <= 16 << 20, "{:#}", mount.status());
    mount.unmount();
}

/// Interrupted priming goes on where it stopped.
#[test]
fn priming_resumes() {
    require!(Requirement::Fuse);
    let mut mount = Mount::builder().property("pagecache", "off").start();
    for seed in 0..8 {
        fill(&mount.origin().join(format!("file-{seed}")), seed, 4 << 20);
    }
    let all = 32 << 20;
    let read = || mount.counter("origin_read_bytes");
    let before = read();
    let prime = mount.warmfront().program(["prime", "--rate", "8M"]).arg(mount.path());
    let mut child = Background::start(prime, Stdio::null());
    assert!(wait_until(Duration::from_secs(10), || read() - before >= 4 << 20), "it reads");
    Program::new("kill").args(["-INT", &child.id().to_string()]).run().success();
    let status = child.wait(Duration::from_secs(10));
    assert!(!status.success(), "an interrupted run is not a success");
    // What is under way when the interrupt comes may still arrive.
    std::thread::sleep(Duration::from_millis(500));
    let stopped = read();
    assert!(stopped - before < all, "it was not interrupted");
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(read(), stopped, "priming goes on after its interruption");
    mount.run(&["prime"]);
    assert_eq!(read() - before, all, "each byte is read once in both runs together");
    mount.unmount();
}

#[test]
fn doctor_looks_at_the_machine() {
    require!(Requirement::Fuse);
    let warmfront = Warmfront::new();
    let told = warmfront.run(["doctor"]);
    for word in ["FUSE", "kernel", "memory"] {
        assert!(told.to_lowercase().contains(&word.to_lowercase()), "no {word} in\n{told}");
    }
}

/// A slow origin costs its time when cold and nothing when warm.
#[test]
fn a_slowed_origin() {
    require!(Requirement::Fuse);
    let mut mount = Mount::builder()
        .property("pagecache", "off")
        .property("coherence", "exclusive")
        .argument("--slow=hdd")
        .start();
    let expected = fill(&mount.origin().join("file"), 1, 1 << 20);
    let time = || {
        let start = std::time::Instant::now();
        assert!(fs::read(mount.join("file")).unwrap() == expected);
        start.elapsed()
    };
    let (cold, warm) = (time(), time());
    // A disk needs some milliseconds to begin with, RAM does not.
    assert!(cold > Duration::from_millis(5), "a disk cannot answer in {cold:?}");
    assert!(warm < cold, "cold {cold:?}, warm {warm:?}");
    mount.unmount();
}

/// A mount point in the present directory names its pool as any other path does; a name of a pool
/// comes first.
#[test]
fn a_pool_is_named_by_a_bare_mount_point() {
    require!(Requirement::Fuse);
    let place = Place::new(&["slow", "top/m7", "top/tank", "other"]);
    let (cache, log) = (place.path("cache:64M"), place.path("log:32M"));
    place.warmfront.run(["mount", &place.path("slow"), &place.path("top/m7"), "--arc-max=64M"]);
    let run = |words: &[&str]| place.run_in("top", words);
    for (role, device) in [("cache", &cache), ("log", &log)] {
        let path = device.rsplit_once(':').expect("a size").0;
        let of = run(&["pool", "add", "m7", role, device]).success();
        assert!(of.contains("lasts until the pool is unmounted"), "{of}");
        run(&["pool", "remove", "./m7", role, path]).success();
        run(&["pool", "add", "m7/", role, device]).success();
        run(&["pool", "remove", "m7", role, path]).success();
    }
    run(&["pool", "add", "tank", "log", &log]).fails_with(1, &["tank"]);
    // A pool may have the name of a mount point that is there.
    run(&["pool", "create", "m7", &place.path("other")]).success();
    run(&["pool", "add", "m7", "log", &log]).success();
    assert!(place.warmfront.status(&place.join("top/m7"))["log_device"].is_null());
    place.warmfront.run(["unmount", &place.path("top/m7")]);
}
