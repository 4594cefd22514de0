//! Which cache devices a pool is given, and what is said of those that it cannot have.

use std::fs::{self, File};
use std::path::Path;

use warmfront_tests::{Place, Program, Requirement, SmallDisk, random_bytes, require};

/// A loop device over a file, until dropped.
struct Loop(String);

impl Loop {
    fn over(file: &str) -> Loop {
        let shown = Program::new("losetup").args(["-f", "--show", file]).run().success();
        Loop(shown.trim().to_string())
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        Program::new("losetup").args(["-d", &self.0]).run();
    }
}

#[test]
fn settings_keep_cache_devices() {
    require!(Requirement::Fuse);
    let place = Place::new(&["slow", "fast"]);
    let (warmfront, path) = (&place.warmfront, |name: &str| place.path(name));
    let top = place.join("fast");
    // A path without a directory is one of here.
    let create = ["pool", "create", "tank", "slow", "--cache", "one:64M"];
    place.run_in("", &create).success();
    warmfront.run(["pool", "add", "tank", "cache", &path("two:64M")]);
    let nowhere = warmfront.program(["pool", "add", "tank", "cache", &path("three")]);
    nowhere.run().fails_with(1, &["there is no cache device", "three:SIZE"]);
    warmfront.run(["mount", "tank", &path("fast"), "--arc-max=64M"]);
    let caches = || {
        let status = warmfront.status(&top);
        let caches = status["caches"].as_array().expect("a list").clone();
        let shown = caches.iter().map(|cache| {
            let path = cache["path"].as_str().expect("a path").rsplit('/').next();
            format!("{} {}", path.unwrap_or_default(), cache["condition"].as_str().unwrap_or(""))
        });
        shown.collect::<Vec<_>>()
    };
    assert_eq!(caches(), ["one works", "two works"]);
    warmfront.run(["pool", "remove", "tank", "cache", &path("one")]);
    warmfront.run(["unmount", "tank"]);
    // Whose it is, is told.
    fs::create_dir(place.join("other")).expect("a directory");
    let two = path("two");
    let words = ["mount", &path("other"), &path("fast"), "--arc-max=64M", "--cache", &two];
    warmfront.program(words).run().fails_with(1, &["it is a cache of pool `tank`"]);
    let inside = warmfront.program(["pool", "add", "tank", "cache", &path("slow/cache:64M")]);
    inside.run().fails_with(1, &["inside the origin"]);
    // A key that is not there does not keep the pool from being mounted, but its devices out.
    let key = path("key");
    fs::write(&key, random_bytes(1, 32)).expect("written");
    let file = warmfront.config_directory().join("tank.toml");
    let settings = fs::read_to_string(&file).expect("a settings file");
    let with_key = format!("cache_key = \"{key}\"\n{settings}");
    fs::write(&file, with_key).expect("written");
    fs::rename(&key, path("elsewhere")).expect("renamed");
    let said = warmfront.run(["mount", "tank", &path("fast"), "--arc-max=64M"]);
    assert!(said.contains("cannot be read") && said.contains("goes on without it"), "{said}");
    assert_eq!(caches(), ["two unavailable"]);
    warmfront.program(["pool", "add", "tank", "cache", &two]).run().fails_with(1, &["key file"]);
    warmfront.run(["unmount", "tank"]);
    fs::write(&file, settings).expect("written");
    // A device that is not there does not keep the pool from being mounted.
    fs::remove_file(place.join("two")).expect("it was there");
    fs::create_dir(place.join("two")).expect("something else");
    let said = warmfront.run(["mount", "tank", &path("fast"), "--arc-max=64M"]);
    assert!(said.contains("the pool goes on without it"), "{said}");
    assert_eq!(caches(), ["two unavailable"]);
    let told = warmfront.run(["doctor", "tank"]);
    assert!(told.contains("two is not used"), "{told}");
    warmfront.run(["unmount", "tank"]);
}

#[test]
fn a_cache_file_that_has_gone_is_made_anew_where_it_was_and_says_so() {
    require!(Requirement::Fuse, Requirement::Root);
    let place = Place::new(&["slow", "fast"]);
    let warmfront = &place.warmfront;
    let disk = SmallDisk::new("64M");
    let cache = disk.path().join("cache");
    let top = place.path("fast");
    let device = format!("{}:32M", cache.display());
    place.run_in("", &["pool", "create", "tank", "slow", "--cache", &device]).success();
    let mount = |more: &[&str]| {
        let words = ["mount", "tank", &top, "--arc-max=64M"];
        let said = warmfront.program(words).args(more).run().success();
        let device = warmfront.status(Path::new(&top))["caches"][0].clone();
        warmfront.run(["unmount", "tank"]);
        (said, device["condition"].as_str().expect("a word").to_string())
    };
    let (said, _) = mount(&[]);
    assert!(!said.contains("note:"), "nothing is to be said: {said}");
    fs::remove_file(&cache).expect("it is there");
    let (said, condition) = mount(&[]);
    let words = "made anew: the file that the pool had there is gone";
    assert!(said.contains(words) && condition == "works", "{condition}: {said}");
    // Its directory is there, but its file system is not.
    Program::new("umount").arg(disk.path()).run().success();
    let (said, condition) = mount(&[]);
    let words = "nothing is mounted there now; mount that, or have the file made anew";
    assert!(said.contains(words) && condition == "unavailable", "{condition}: {said}");
    assert!(!cache.exists(), "nothing is made in its place");
    let (said, condition) =
        mount(&["--cache", &format!("{}:32M", cache.display()), "--force-cache"]);
    assert!(said.contains("made anew") && condition == "works", "{condition}: {said}");
    fs::remove_dir_all(disk.path()).expect("it is there");
    let (said, condition) = mount(&[]);
    assert!(said.contains("there is no directory") && condition == "unavailable", "{said}");
    fs::create_dir(disk.path()).expect("made");
}

#[test]
fn what_cannot_be_a_cache_device_is_refused_with_words() {
    require!(Requirement::Fuse);
    let place = Place::new(&["slow", "other", "fast"]);
    let (warmfront, path) = (&place.warmfront, |name: &str| place.path(name));
    let mount = |origin: &str, cache: &str, more: &[&str]| {
        let words = ["mount", &path(origin), &path("fast"), "--arc-max=64M", "--cache", cache];
        warmfront.program(words).args(more).run()
    };
    let refused = |cache: &str, code: i32, words: &[&str]| {
        mount("slow", cache, &[]).fails_with(code, words);
    };
    refused(&path("none"), 1, &["there is no cache device", "none:SIZE"]);
    refused(&path("nowhere/cache:64M"), 1, &["there is no directory", "/nowhere; make it first"]);
    refused(&path("other"), 1, &["it is a directory; name a file in it"]);
    refused(&path("small:1M"), 2, &["is too small", "at least 17M"]);
    refused(&path("wrong:big"), 2, &["`big` is not a size"]);
    refused("/dev/null", 1, &["/dev/null"]);
    refused(&path("slow"), 1, &["slow"]);
    File::create(place.join("tiny")).expect("a file").set_len(4096).expect("a hole");
    refused(&path("tiny"), 1, &["too small", "it needs"]);

    // What others have put there.
    let ext4 = path("ext4");
    File::create(&ext4).expect("a file").set_len(64 << 20).expect("a hole");
    Program::new("mkfs.ext4").args(["-q", &ext4]).run().success();
    refused(&ext4, 1, &["ext4 file system", "--force-cache"]);
    let text = path("text");
    fs::write(&text, "a letter\n".repeat(8 << 20)).expect("written");
    refused(&text, 1, &["force"]);
    let diary = path("diary");
    fs::write(&diary, "a page\n").expect("written");
    refused(&format!("{diary}:64M"), 1, &["--force-cache"]);
    assert_eq!(fs::read(&diary).expect("it is there"), b"a page\n", "what is refused is left");
    mount("slow", &text, &["--force-cache"]).success();
    warmfront.run(["unmount", &path("fast")]);
    // A cache has the size with which it was made.
    let made = fs::metadata(&text).expect("it is there").len();
    let said = mount("slow", &format!("{text}:256M"), &[]).success();
    assert!(said.contains("keeps the 72M"), "{said}");
    assert_eq!(fs::metadata(&text).expect("it is there").len(), made);
    warmfront.run(["unmount", &path("fast")]);
    let whose = format!("it is a cache of the mount of {}; force its use", path("slow"));
    mount("other", &text, &[]).fails_with(1, &[&whose, "that (--force-cache)"]);

    // What was made for a mount that did not come about is not left.
    let two = ["--cache", &path("none")];
    mount("slow", &path("new:64M"), &two).fails_with(1, &["there is no cache device"]);
    assert!(!place.join("new").exists());

    // It would cache itself.
    let inside = "so that the pool would hold its own cache; choose a place outside";
    refused(&path("slow/cache:64M"), 1, &["inside the origin", inside]);
    refused(&path("fast/../slow/./cache:64M"), 1, &["inside the origin", inside]);
    refused(&path("fast/cache:64M"), 1, &["inside the mount point", inside]);
    assert!(!place.join("slow/cache").exists(), "nothing is made there");

    // In use.
    mount("slow", &text, &[]).success();
    let second = place.join("second");
    fs::create_dir(&second).expect("a mount point");
    let words = ["mount", &path("other"), &path("second"), "--arc-max=64M", "--cache", &text];
    let used = format!("in use by pool `slow`, mounted at {}", path("fast"));
    warmfront.program(words).run().fails_with(1, &[&used]);
    warmfront.run(["unmount", &path("fast")]);

    // What nobody may write to, and what somebody else writes to.
    if rustix::process::geteuid().is_root() {
        mount("slow", &text, &[]).success();
        let over = Loop::over(&text);
        let words = ["mount", &path("other"), &path("second"), "--arc-max=64M", "--cache"];
        let refused_there = warmfront.program(words).arg(&over.0).run();
        refused_there.fails_with(1, &[&over.0, &used]);
        drop(over);
        warmfront.run(["unmount", &path("fast")]);
        Program::new("chattr").args(["+i", &path("second")]).run().success();
        let inside = mount("slow", &path("second/cache:64M"), &[]);
        Program::new("chattr").args(["-i", &path("second")]).run().success();
        inside.fails_with(1, &[&format!("chattr -i -a {}` takes that away", path("second"))]);
        let image = path("image");
        File::create(&image).expect("a file").set_len(64 << 20).expect("a hole");
        Program::new("chattr").args(["+i", &image]).run().success();
        refused(&image, 1, &["one that nobody may change", &format!("chattr -i -a {image}")]);
        Program::new("chattr").args(["-i", &image]).run().success();
        let device = Program::new("losetup").args(["-f", "--show", &image]).run().success();
        let device = device.trim();
        let both = [image.as_str(), device].map(|name| {
            Program::new("blockdev").args(["--setro", device]).run().success();
            mount("slow", name, &["--force-cache"])
        });
        // It would stay so for whoever has that loop device next.
        Program::new("blockdev").args(["--setrw", device]).run().success();
        Program::new("losetup").args(["-d", device]).run().success();
        let [shown, read_only] = both;
        shown.fails_with(1, &[&format!("is in use by loop device {device}")]);
        read_only.fails_with(1, &["the block device is read-only", "blockdev --setrw"]);
        assert!(fs::read(&image).expect("it is there").iter().all(|byte| *byte == 0));
    }

    // A key that is none, and a disk that is full.
    let key = path("key");
    fs::write(&key, "short").expect("written");
    mount("slow", &text, &["--cache-key", &key]).fails_with(1, &["holds 5 bytes, a key has 32"]);
    mount("slow", &text, &["--dwpd", "many"]).fails_with(2, &["is not a number of drive writes"]);
    if rustix::process::geteuid().is_root() {
        let disk = SmallDisk::new("16M");
        let cache = disk.path().join("cache:64M");
        let words = ["has no room for 64M", "16M left", "make room, or give a smaller size"];
        refused(cache.to_str().expect("text"), 1, &words);
        assert!(!disk.path().join("cache").exists(), "what is of no use is not left");
        let there = disk.path().join("there");
        File::create(&there).expect("a file").set_len(12 << 20).expect("a hole");
        disk.make_read_only();
        for text in [there.to_str().expect("text"), cache.to_str().expect("text")] {
            refused(text, 1, &["read-only", "make that writable, or choose another place"]);
        }
    }
}

#[test]
fn a_pool_that_is_not_mounted_is_given_only_what_it_can_use() {
    require!(Requirement::Fuse);
    let place = Place::new(&["slow", "other", "fast"]);
    let (warmfront, path) = (&place.warmfront, |name: &str| place.path(name));
    warmfront.run(["pool", "create", "tank", &path("slow")]);
    let add = |device: &str, more: &[&str]| {
        let words = ["pool", "add", "tank", "cache", device];
        warmfront.program(words).args(more).run()
    };
    let remove = |device: &str| warmfront.run(["pool", "remove", "tank", "cache", device]);
    let mount = || warmfront.run(["mount", "tank", &path("fast"), "--arc-max=64M"]);
    let unmount = || warmfront.run(["unmount", &path("fast")]);
    let settings = || {
        let file = warmfront.config_directory().join("tank.toml");
        fs::read_to_string(file).expect("a settings file")
    };
    File::create(path("tiny")).expect("a file").set_len(4096).expect("a hole");
    add(&path("tiny"), &[]).fails_with(1, &["too small"]);
    add(&path("nowhere/cache:64M"), &[]).fails_with(1, &["there is no directory"]);
    let text = path("text");
    fs::write(&text, "a letter\n".repeat(4 << 20)).expect("written");
    add(&text, &[]).fails_with(1, &["(--force)"]);
    assert!(!settings().contains("text"), "{}", settings());
    let words = ["mount", &path("other"), &path("fast"), "--arc-max=64M", "--cache"];
    warmfront.program(words).arg(path("theirs:64M")).run().success();
    let used = format!("in use by pool `other`, mounted at {}", path("fast"));
    add(&path("theirs"), &[]).fails_with(1, &[&used]);
    unmount();
    add(&path("theirs"), &[]).fails_with(1, &["it is a cache of the mount of", "(--force)"]);
    // What is forced is forced by the next mount, too.
    add(&text, &["--force"]).success();
    add(&path("new:64M"), &[]).success();
    assert!(!place.join("new").exists(), "a mount makes it");
    let said = mount();
    assert!(!said.contains("goes on without it"), "{said}");
    let states = warmfront.status(Path::new(&path("fast")))["caches"].clone();
    let works = states.as_array().expect("a list").iter().filter(|it| it["condition"] == "works");
    assert_eq!(works.count(), 2, "{states:#}");
    unmount();
    // What is removed is not warm when it comes again.
    assert!(mount().contains("new: it is warm"));
    unmount();
    remove(&path("new"));
    add(&path("new:96M"), &[]).success();
    let said = mount();
    assert!(!said.contains("new: it is warm"), "{said}");
    assert_eq!(fs::metadata(path("new")).expect("it is there").len(), 96 << 20);
    unmount();
    // A device that comes back keeps the size with which it was named.
    fs::rename(path("new"), path("away")).expect("renamed");
    fs::create_dir(path("new")).expect("a directory");
    assert!(mount().contains("it is a directory"));
    fs::remove_dir(path("new")).expect("removed");
    fs::rename(path("away"), path("new")).expect("renamed");
    add(&path("new"), &[]).success();
    assert!(settings().contains("new:96M"), "{}", settings());
    unmount();
}

#[test]
fn a_device_is_one_by_all_its_names_and_words_name_the_pool() {
    require!(Requirement::Fuse, Requirement::Root, Requirement::Tool("losetup"));
    let place = Place::new(&["slow", "fast", "slow/inner"]);
    let (warmfront, path) = (&place.warmfront, |name: &str| place.path(name));
    let create = ["pool", "create", "tank", "slow", "--cache", "one:64M"];
    place.run_in("", &create).success();
    let add =
        |pool: &str, device: &str| warmfront.program(["pool", "add", pool, "cache", device]).run();
    warmfront.run(["mount", "tank", &path("fast"), "--arc-max=64M"]);
    warmfront.run(["create", "tank/inner"]);
    fs::write(place.join("fast/inner/file"), "contents").expect("written");
    fs::read(place.join("fast/inner/file")).expect("read");
    // A dataset without records on flash has its row.
    let told = warmfront.run(["status", "tank"]);
    let flash = told.lines().skip_while(|line| !line.starts_with("FLASH")).skip(1);
    let rows: Vec<&str> = flash.take_while(|line| !line.is_empty()).collect();
    assert!(rows.iter().any(|row| row.starts_with("tank/inner ")), "{told}");
    // Who names the mount point is told of the pool.
    let said = add(&path("fast"), &path("two:64M")).success();
    assert!(said.contains("is a cache device of pool tank;"), "{said}");
    let said = warmfront.run(["pool", "remove", &path("fast"), "cache", &path("two")]);
    assert!(said.contains("is no cache device of pool tank any more"), "{said}");
    warmfront.run(["unmount", "tank"]);
    // All names lead to the one device.
    fs::hard_link(place.join("one"), place.join("hard")).expect("a link");
    std::os::unix::fs::symlink(place.join("one"), place.join("soft")).expect("a link");
    let shown = Loop::over(&path("one"));
    for name in [path("hard"), path("soft"), shown.0.clone()] {
        add("tank", &name).fails_with(1, &["is a cache device of the pool already"]);
    }
    drop(shown);
    let settings = fs::read_to_string(warmfront.config_directory().join("tank.toml"));
    assert!(settings.expect("settings").contains("/one:64M\"]"), "nothing was added");
    // A short file is told as what it is, and stays so.
    fs::write(place.join("nine"), "123456789").expect("written");
    add("tank", &path("nine")).fails_with(1, &["a file of 9", "is too small", "nine:SIZE"]);
    add("tank", &path("nine:64M")).fails_with(1, &["data of another program"]);
    assert_eq!(fs::read(place.join("nine")).expect("it is there"), b"123456789");
}

#[test]
fn a_refused_mount_leaves_nothing_noted() {
    require!(Requirement::Fuse);
    let place = Place::new(&["slow", "fast", "other"]);
    let (warmfront, path) = (&place.warmfront, |name: &str| place.path(name));
    let state = warmfront.config_directory().join("state");
    let noted = || -> Vec<String> {
        let files = fs::read_dir(&state).map_or(Vec::new(), |files| files.flatten().collect());
        let mut names: Vec<String> =
            files.iter().map(|file| file.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    };
    fs::write(place.join("nine"), "123456789").expect("written");
    fs::write(place.join("foreign"), random_bytes(1, 32 << 20)).expect("written");
    let mount = |origin: &str, words: &[&str]| {
        let program = warmfront.program(["mount", "--arc-max=64M", &path(origin), &path("fast")]);
        program.args(words).run()
    };
    let refused = |origin: &str| {
        for (role, file) in [("--cache", "nine"), ("--cache", "foreign"), ("--log", "foreign")] {
            mount(origin, &[role, &path(file)]).fails_with(1, &[file]);
        }
    };
    refused("slow");
    assert_eq!(noted(), Vec::<String>::new());
    // What was noted before stays.
    mount("other", &["--cache", &path("cache:64M")]).success();
    warmfront.run(["unmount", &path("fast")]);
    let before = noted();
    assert!(before.len() > 3, "{before:?}");
    refused("other");
    assert!(before.iter().all(|name| noted().contains(name)), "{before:?}, now {:?}", noted());
}
