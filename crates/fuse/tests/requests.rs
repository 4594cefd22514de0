//! Requests are read as the protocol says, and nothing that is not a request does any harm.

use fuse::abi::{self, opcode, *};
use fuse::{Malformed, Operation};
use proptest::prelude::*;
use zerocopy::IntoBytes;

/// A request with its header.
fn request(opcode: u32, body: &[u8]) -> Vec<u8> {
    let len = u32::try_from(size_of::<InHeader>() + body.len()).expect("requests are small");
    let header = InHeader { len, opcode, unique: 42, nodeid: 7, ..InHeader::default() };
    [header.as_bytes(), body].concat()
}

/// Reads a request and says how it was understood.
fn understood(bytes: &[u8]) -> Result<String, Malformed> {
    let header = fuse::header(bytes)?;
    fuse::operation(&header, bytes, true).map(|operation| format!("{operation:?}"))
}

fn names(names: &[&str]) -> Vec<u8> {
    names.iter().flat_map(|name| name.bytes().chain([0])).collect()
}

/// Every operation with its body and the beginning and a part of how it is understood.
fn every_operation() -> Vec<(u32, Vec<u8>, &'static str, &'static str)> {
    let with = |arguments: &[u8], rest: &[u8]| [arguments, rest].concat();
    let wire = |arguments: &dyn Wire| arguments.bytes();
    let lock = FileLock { start: 5, end: 9, kind: 1, pid: 77 };
    let forgets = [ForgetOne { nodeid: 3, nlookup: 4 }, ForgetOne { nodeid: 5, nlookup: 6 }];
    let read = ReadIn { fh: 1, offset: 4096, size: 512, ..ReadIn::default() };
    let release = ReleaseIn { fh: 11, release_flags: 1, ..ReleaseIn::default() };
    let fsync = FsyncIn { fh: 12, fsync_flags: 1, padding: 0 };
    let copy = CopyFileRangeIn { fh_in: 1, len: 1 << 40, ..CopyFileRangeIn::default() };
    let lk = LkIn { fh: 2, owner: 8, lock, lk_flags: 1, padding: 0 };
    let create = CreateIn { flags: 2, mode: 0o644, umask: 0o22, open_flags: 0 };
    vec![
        (opcode::LOOKUP, names(&["name"]), "Lookup", "\"name\""),
        (opcode::FORGET, wire(&ForgetIn { nlookup: 9 }), "Forget", "nlookup: 9"),
        (opcode::GETATTR, wire(&GetattrIn { fh: 6, ..GetattrIn::default() }), "Getattr", "fh: 6"),
        (
            opcode::SETATTR,
            wire(&SetattrIn { valid: 1 << 11, size: 99, ..SetattrIn::default() }),
            "Setattr",
            "size: 99",
        ),
        (opcode::READLINK, vec![], "Readlink", ""),
        (opcode::SYMLINK, names(&["new", "to/it"]), "Symlink", "target: \"to/it\""),
        (
            opcode::MKNOD,
            with(MknodIn { mode: 0o600, rdev: 5, umask: 7, padding: 0 }.as_bytes(), &names(&["n"])),
            "Mknod",
            "rdev: 5",
        ),
        (
            opcode::MKDIR,
            with(MkdirIn { mode: 0o700, umask: 1 }.as_bytes(), &names(&["dir"])),
            "Mkdir",
            "\"dir\"",
        ),
        (opcode::UNLINK, names(&["gone"]), "Unlink", "\"gone\""),
        (opcode::RMDIR, names(&["gone"]), "Rmdir", "\"gone\""),
        (
            opcode::RENAME,
            with(RenameIn { newdir: 8 }.as_bytes(), &names(&["a", "b"])),
            "Rename",
            "new_parent: 8, new_name: \"b\", flags: 0",
        ),
        (
            opcode::RENAME2,
            with(Rename2In { newdir: 8, flags: 2, padding: 0 }.as_bytes(), &names(&["a", "b"])),
            "Rename",
            "flags: 2",
        ),
        (
            opcode::LINK,
            with(LinkIn { oldnodeid: 13 }.as_bytes(), &names(&["again"])),
            "Link",
            "oldnodeid: 13",
        ),
        (opcode::OPEN, wire(&OpenIn { flags: 2, open_flags: 1 }), "Open(", "open_flags: 1"),
        (opcode::READ, wire(&read), "Read(", "offset: 4096"),
        (
            opcode::WRITE,
            with(WriteIn { size: 3, ..WriteIn::default() }.as_bytes(), &[1, 2, 3]),
            "Write",
            "data: [1, 2, 3]",
        ),
        (opcode::STATFS, vec![], "Statfs", ""),
        (opcode::RELEASE, wire(&release), "Release(", "fh: 11"),
        (opcode::FSYNC, wire(&fsync), "Fsync(", "fh: 12"),
        (
            opcode::SETXATTR,
            [
                SetxattrIn { size: 2, flags: 1 }.as_bytes(),
                SetxattrInMore { setxattr_flags: 1, padding: 0 }.as_bytes(),
                &names(&["user.x"]),
                &[8, 9],
            ]
            .concat(),
            "Setxattr",
            "\"user.x\", value: [8, 9], flags: 1, extended: 1",
        ),
        (
            opcode::GETXATTR,
            with(GetxattrIn { size: 64, padding: 0 }.as_bytes(), &names(&["user.x"])),
            "Getxattr",
            "size: 64",
        ),
        (opcode::LISTXATTR, wire(&GetxattrIn { size: 0, padding: 0 }), "Listxattr", "size: 0"),
        (opcode::REMOVEXATTR, names(&["user.x"]), "Removexattr", "\"user.x\""),
        (opcode::FLUSH, wire(&FlushIn { fh: 3, ..FlushIn::default() }), "Flush", "fh: 3"),
        (
            opcode::INIT,
            with(
                InitIn { major: 7, minor: 45, max_readahead: 1, flags: 1 << 30 }.as_bytes(),
                InitInMore { flags2: 16, unused: [0; 11] }.as_bytes(),
            ),
            "Init",
            "flags2: 16",
        ),
        (opcode::OPENDIR, wire(&OpenIn::default()), "Opendir", ""),
        (opcode::READDIR, wire(&read), "Readdir(", "size: 512"),
        (opcode::READDIRPLUS, wire(&read), "Readdirplus(", "size: 512"),
        (opcode::RELEASEDIR, wire(&release), "Releasedir", "fh: 11"),
        (opcode::FSYNCDIR, wire(&fsync), "Fsyncdir", "fsync_flags: 1"),
        (opcode::GETLK, wire(&lk), "Getlk", "end: 9"),
        (opcode::SETLK, wire(&lk), "Setlk(", "owner: 8"),
        (opcode::SETLKW, wire(&lk), "Setlkw(", "lk_flags: 1"),
        (opcode::ACCESS, wire(&AccessIn { mask: 4, padding: 0 }), "Access", "mask: 4"),
        (opcode::CREATE, with(create.as_bytes(), &names(&["f"])), "Create", "umask: 18"),
        (opcode::INTERRUPT, wire(&InterruptIn { unique: 41 }), "Interrupt", "unique: 41"),
        (opcode::BMAP, wire(&BmapIn { block: 2, ..BmapIn::default() }), "Bmap", "block: 2"),
        (opcode::DESTROY, vec![], "Destroy", ""),
        (
            opcode::IOCTL,
            with(IoctlIn { cmd: 21, in_size: 1, ..IoctlIn::default() }.as_bytes(), &[7]),
            "Ioctl",
            "data: [7]",
        ),
        (opcode::POLL, wire(&PollIn { events: 5, ..PollIn::default() }), "Poll", "events: 5"),
        (
            opcode::BATCH_FORGET,
            with(BatchForgetIn { count: 2, dummy: 0 }.as_bytes(), forgets.as_bytes()),
            "BatchForget",
            "nodeid: 5, nlookup: 6",
        ),
        (
            opcode::FALLOCATE,
            wire(&FallocateIn { length: 10, mode: 3, ..FallocateIn::default() }),
            "Fallocate",
            "length: 10, mode: 3",
        ),
        (opcode::LSEEK, wire(&LseekIn { whence: 4, ..LseekIn::default() }), "Lseek", "whence: 4"),
        (opcode::COPY_FILE_RANGE, wire(&copy), "CopyFileRange(", "len: 1099511627776"),
        (opcode::COPY_FILE_RANGE_64, wire(&copy), "CopyFileRange64(", "len: 1099511627776"),
        (opcode::SYNCFS, wire(&SyncfsIn::default()), "Syncfs", ""),
        (opcode::TMPFILE, wire(&create), "Tmpfile", "mode: 420"),
        (
            opcode::STATX,
            wire(&StatxIn { sx_mask: 0xfff, ..StatxIn::default() }),
            "Statx",
            "sx_mask: 4095",
        ),
    ]
}

trait Wire {
    fn bytes(&self) -> Vec<u8>;
}

impl<T: IntoBytes + zerocopy::Immutable> Wire for T {
    fn bytes(&self) -> Vec<u8> {
        self.as_bytes().to_vec()
    }
}

#[test]
fn every_operation_is_understood() {
    for (opcode, body, variant, part) in every_operation() {
        let understood = understood(&request(opcode, &body)).expect(variant);
        assert!(understood.starts_with(variant), "{understood} is not {variant}");
        assert!(understood.contains(part), "{understood} lacks {part}");
    }
}

#[test]
fn a_request_that_is_cut_off_is_refused() {
    for (opcode, body, variant, _) in every_operation() {
        // These take no arguments, or do not need theirs.
        let bare = [opcode::READLINK, opcode::STATFS, opcode::DESTROY, opcode::SYNCFS];
        if bare.contains(&opcode) || opcode == opcode::INIT {
            continue;
        }
        for length in 0..body.len() {
            let cut = request(opcode, &body[..length]);
            assert!(understood(&cut).is_err(), "{variant} with {length} bytes was understood");
        }
    }
}

#[test]
fn an_unknown_operation_is_told_apart() {
    for opcode in [0, 7, 19, 48, 49, 54, 4096, u32::MAX] {
        assert_eq!(understood(&request(opcode, &[1; 80])).as_deref(), Ok("Unknown"));
    }
}

#[test]
fn the_old_form_of_setxattr_is_understood() {
    let arguments = SetxattrIn { size: 1, flags: 0 };
    let bytes = request(opcode::SETXATTR, &[arguments.as_bytes(), b"user.x\0v"].concat());
    let header = fuse::header(&bytes).expect("the header is complete");
    let operation = fuse::operation(&header, &bytes, false).expect("the body is complete");
    assert!(matches!(operation, Operation::Setxattr { value: b"v", extended: 0, .. }));
}

#[test]
fn the_init_of_an_old_kernel_is_understood() {
    let arguments = InitIn { major: abi::MAJOR, minor: 31, ..InitIn::default() };
    let understood = understood(&request(opcode::INIT, arguments.as_bytes()));
    assert!(understood.is_ok_and(|text| text.contains("minor: 31") && text.contains("flags2: 0")));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, ..ProptestConfig::default() })]

    #[test]
    fn nothing_panics(
        opcode in prop_oneof![0..60_u32, any::<u32>()],
        body in prop::collection::vec(any::<u8>(), 0..200),
        extended: bool,
    ) {
        let bytes = request(opcode, &body);
        let header = fuse::header(&bytes).expect("the header is complete");
        let _ = fuse::operation(&header, &bytes, extended);
    }

    #[test]
    fn no_header_panics(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        prop_assert!(fuse::header(&bytes).is_err() || bytes.len() >= size_of::<InHeader>());
    }

    #[test]
    fn a_length_that_lies_is_refused(length in any::<u32>(), more in 0..64_usize) {
        let mut bytes = request(opcode::LOOKUP, &vec![b'a'; more]);
        prop_assume!(length as usize != bytes.len());
        bytes[..4].copy_from_slice(&length.to_ne_bytes());
        prop_assert!(fuse::header(&bytes).is_err());
    }

    #[test]
    fn sizes_inside_arguments_are_checked(size in any::<u32>(), data in 0..64_usize) {
        let write = WriteIn { size, ..WriteIn::default() };
        let bytes = request(opcode::WRITE, &[write.as_bytes(), &vec![0; data]].concat());
        prop_assert_eq!(understood(&bytes).is_ok(), size as usize <= data);
        let forget = BatchForgetIn { count: size, dummy: 0 };
        let bytes = request(opcode::BATCH_FORGET, &[forget.as_bytes(), &vec![0; data]].concat());
        prop_assert_eq!(understood(&bytes).is_ok(), size as usize <= data / size_of::<ForgetOne>());
    }
}
