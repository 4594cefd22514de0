use super::*;
use warmfront::Source;

struct Place {
    _base: tempfile::TempDir,
    paths: Paths,
}

impl Place {
    fn new() -> Place {
        let base = tempfile::tempdir().expect("a directory");
        let paths = Paths::new(base.path().join("config"), base.path().join("run"));
        Place { _base: base, paths }
    }

    fn tank(&self) -> PoolFile {
        let properties = BTreeMap::from([("prefetch".to_string(), "none".to_string())]);
        let pool = NewPool {
            log: Some(DevicePath::parse("/flash/log:2G", DeviceRole::Log).expect("a device")),
            name: "tank".into(),
            origin: "/slow \"x\"".into(),
            mountpoint: None,
            arc_max: Some(ArcMax::Size(Size::Percent(12.5))),
            arc_min: Some(Size::Bytes(64 << 20)),
            properties,
            caches: Vec::new(),
        };
        PoolFile::create(&self.paths, &pool).expect("a new pool")
    }

    /// The message about a file with this text.
    fn wrong(&self, text: &str) -> String {
        self.paths.make_config_directory().expect("made");
        fs::write(self.paths.settings("tank"), text).expect("written");
        PoolFile::load(&self.paths, "tank").expect_err(text).to_string()
    }
}

fn set(dataset: &str, property: &str, value: &str) -> Change {
    let properties = BTreeMap::from([(property.to_string(), value.to_string())]);
    Change::Set { dataset: dataset.into(), properties }
}

fn create(dataset: &str, path: Option<&str>) -> Change {
    Change::Create {
        dataset: dataset.into(),
        path: path.map(PathBuf::from),
        properties: BTreeMap::from([("freebehind".to_string(), "on".to_string())]),
    }
}

fn value_of(file: &PoolFile, dataset: &str, property: &str) -> (String, Source) {
    let rows = file.settings.datasets.get(dataset).expect("it exists");
    let row = rows.into_iter().find(|row| row.property == property).expect("it is listed");
    (row.value, row.source)
}

#[test]
fn a_new_file_explains_itself_and_reads_back() {
    let place = Place::new();
    let file = place.tank();
    assert!(file.text.starts_with('#'), "{}", file.text);
    for property in warmfront::PROPERTIES {
        assert!(file.text.contains(&format!("#   {} = ", property.name)), "{}", file.text);
    }
    assert_eq!(file.settings.origin, Path::new("/slow \"x\""));
    assert_eq!(file.settings.arc_max, Some(ArcMax::Size(Size::Percent(12.5))));
    assert_eq!(file.settings.arc_min, Some(Size::Bytes(64 << 20)));
    assert_eq!(value_of(&file, "tank", "prefetch"), ("none".into(), Source::Local));
    assert_eq!(PoolFile::names(&place.paths).expect("listed"), ["tank"]);
    let again = NewPool { name: "tank".into(), ..NewPool::default() };
    let again = PoolFile::create(&place.paths, &again);
    assert!(matches!(again, Err(PoolFileError::Exists { .. })));
    // What the comments say may be taken over.
    let (settings, properties): (Vec<&str>, Vec<&str>) = file
        .text
        .lines()
        .filter(|line| line.contains(" = "))
        .partition(|line| !line.starts_with("#   "));
    let uncommented = |lines: &[&str]| -> String {
        lines.iter().map(|line| line.trim_start_matches(['#', ' ']).to_string() + "\n").collect()
    };
    let settings = uncommented(&settings).replace("prefetch = \"none\"", "");
    let all = format!("{settings}[datasets.tank]\n{}", uncommented(&properties));
    let parsed = parse("tank", &all);
    let parsed = parsed.unwrap_or_else(|fault| panic!("{}\n{all}", fault.message));
    assert!(parsed.read_only && parsed.allow_other && parsed.mountpoint.is_some());
    let local = parsed.datasets.local("tank").expect("it exists");
    assert_eq!(local.len(), warmfront::PROPERTIES.len());
}

#[test]
fn changes_keep_what_people_wrote() {
    let place = Place::new();
    drop(place.tank());
    let path = place.paths.settings("tank");
    let text = fs::read_to_string(&path).expect("it is there");
    let text = format!("# by hand\n{text}\nrecordsize = 16384 # pages\n");
    fs::write(&path, text).expect("written");
    let mut file = PoolFile::load(&place.paths, "tank").expect("still right");
    assert_eq!(value_of(&file, "tank", "recordsize").0, "16K");
    let changes = [
        set("tank", "recordsize", "1M"),
        create("tank/a", None),
        create("tank/a/b", Some("elsewhere/b")),
        create("tank/c", None),
        set("tank/a", "prefetch", "metadata"),
        Change::Inherit {
            dataset: "tank/a".into(),
            property: "freebehind".into(),
            recursive: true,
        },
        Change::Destroy { dataset: "tank/c".into(), recursive: false },
    ];
    for change in &changes {
        file = file.change(change).unwrap_or_else(|error| panic!("{change:?}: {error}"));
    }
    let stored = PoolFile::load(&place.paths, "tank").expect("right after all changes");
    assert!(stored.text.starts_with("# by hand\n"), "{}", stored.text);
    assert!(stored.text.contains("recordsize = \"1M\" # pages"), "{}", stored.text);
    for property in ["recordsize", "prefetch", "freebehind"] {
        for dataset in ["tank", "tank/a", "tank/a/b"] {
            let (now, then) =
                (value_of(&file, dataset, property), value_of(&stored, dataset, property));
            assert_eq!(now, then, "{dataset} {property}\n{}", stored.text);
        }
    }
    let inherited = Source::Inherited("tank/a".into());
    assert_eq!(value_of(&stored, "tank/a/b", "prefetch"), ("metadata".into(), inherited));
    assert_eq!(value_of(&stored, "tank/a/b", "freebehind"), ("off".into(), Source::Default));
    let b = stored.settings.datasets.of_path(Path::new("elsewhere/b/file"));
    assert_eq!(b.name(), "tank/a/b");
    assert_eq!(stored.settings.datasets.list().len(), 3);
    let text = stored.text.clone();
    stored.change(&set("tank", "recordsize", "3")).expect_err("not a power of two");
    assert_eq!(fs::read_to_string(&path).expect("it is there"), text);
}

#[test]
fn mistakes_are_told_with_their_place() {
    let place = Place::new();
    let good = "name = \"tank\"\norigin = \"/slow\"\n";
    let cases = [
        ("origin = = 7\n", "tank.toml:3:10:", "expected"),
        ("mountpiont = \"/fast\"\n", "tank.toml:3:1:", "expected"),
        ("mountpoint = \"fast\"\n", "tank.toml:3:14:", "absolute"),
        ("arc_max = \"lots\"\n", "tank.toml:3:11:", "expected a size such as"),
        ("arc_max = [1]\n", "tank.toml:3:11:", "array"),
        ("arc_max = \"120%\"\n", "tank.toml:3:11:", "more than the memory"),
        ("arc_min = \"auto\"\n", "tank.toml:3:11:", "not auto"),
        ("read_only = 7\n", "tank.toml:3:13:", "expected a boolean"),
        ("[datasets.\"tank\"]\nprefetch = \"nnone\"\n", "tank.toml:4:12:", "all|metadata|none"),
        ("[datasets.\"tank\"]\nprefech = \"none\"\n", "tank.toml:4:1:", "did you mean `prefetch`"),
        ("[datasets.\"tank\"]\npath = \"x\"\n", "tank.toml:4:8:", "remove"),
        ("[datasets.\"tank/a/b\"]\n", "tank.toml:3:11:", "create it first"),
        ("[datasets.\"pond\"]\n", "tank.toml:3:11:", "begin with the pool's name"),
        ("[datasets.\"tank/a\"]\npath = \"../x\"\n", "tank.toml:4:8:", "not a path below"),
    ];
    for (line, at, message) in cases {
        let error = place.wrong(&format!("{good}{line}"));
        assert!(error.contains(at) && error.contains(message), "{line}: {error}");
    }
    let error = place.wrong("name = \"pond\"\norigin = \"/slow\"\n");
    assert!(error.contains("tank.toml:1:8:") && error.contains("\"tank\""), "{error}");
    let error = place.wrong("name = \"tank\"\n");
    assert!(error.contains("missing field `origin`"), "{error}");
    fs::write(place.paths.settings("tank"), b"\xff").expect("written");
    assert!(PoolFile::load(&place.paths, "tank").is_err());
    let missing = PoolFile::load(&place.paths, "pond").expect_err("none").to_string();
    assert!(missing.contains("`pond`") && missing.contains("pool list"), "{missing}");
}

#[test]
fn paths_that_are_not_text_are_refused() {
    use std::os::unix::ffi::OsStrExt;

    let place = Place::new();
    let origin = std::ffi::OsStr::from_bytes(b"/\xff").into();
    let pool = NewPool { name: "tank".into(), origin, ..NewPool::default() };
    let created = PoolFile::create(&place.paths, &pool);
    assert!(matches!(created, Err(PoolFileError::NotText { .. })));
    assert!(PoolFile::names(&place.paths).expect("no directory is no error").is_empty());
}

#[test]
fn cache_devices_are_read_and_written_among_comments() {
    let place = Place::new();
    let file = place.tank();
    assert!(file.settings.caches.is_empty());
    let read = |text| DevicePath::parse(text, DeviceRole::Cache).expect("a device");
    let devices = ["/flash/a:10G", "/dev/nvme9n9"].map(read);
    file.set_caches(&devices).expect("written");
    let file = PoolFile::load(&place.paths, "tank").expect("it is well formed");
    assert_eq!(file.settings.caches, devices);
    assert!(file.text.contains("# Refuse every change."), "comments stay");
    file.set_caches(&devices[1..]).expect("written");
    let file = PoolFile::load(&place.paths, "tank").expect("it is well formed");
    assert_eq!(file.settings.caches, devices[1..]);
    let text = file.text.replace("/dev/nvme9n9", "nvme9n9");
    std::fs::write(&file.path, text).expect("written");
    let error = PoolFile::load(&place.paths, "tank").expect_err("refused").to_string();
    assert!(error.contains("not an absolute path"), "{error}");
}
