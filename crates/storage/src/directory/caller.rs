#![expect(unsafe_code, reason = "unshare(2) only splits off the umask here")]

use std::cell::OnceCell;

use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::process::{Gid, Uid, umask};
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, UnshareFlags, capabilities, capabilities_secure_bits,
    set_capabilities_secure_bits, set_thread_res_gid, set_thread_res_uid, unshare_unsafe,
};

use crate::Caller;

thread_local! {
    static PREPARED: OnceCell<Preparation> = const { OnceCell::new() };
}

/// What a thread is able to do on behalf of callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Preparation {
    /// The umask is this thread's own.
    own_umask: bool,
    /// The thread may take a caller's ids and keeps its capabilities meanwhile.
    switches_ids: bool,
}

/// Whether this process may create objects in the name of others.
pub(super) fn may_switch() -> bool {
    let needed = CapabilitySet::SETUID | CapabilitySet::SETGID | CapabilitySet::SETPCAP;
    capabilities(None).is_ok_and(|sets| sets.effective.contains(needed))
}

/// Makes the calling thread fit to create objects in the name of others. Done once a thread, by
/// the creating call itself.
///
/// The thread gets a umask of its own (`CLONE_FS`), which starts at zero, and the secure bit that
/// lets it keep its capabilities while it has another user's ids: the door has checked the
/// caller's permissions already. Where the system refuses the first (a container's seccomp filter
/// may), the umask of the whole process becomes zero, and the caller's mask is applied by hand, so
/// that it is not ignored where the directory has a default ACL.
fn prepare_thread() -> Preparation {
    PREPARED.with(|prepared| {
        *prepared.get_or_init(|| {
            // SAFETY: only CLONE_FS is unshared: the umask and the working directory become this
            // thread's own. The table of descriptors stays shared.
            let own_umask = unsafe { unshare_unsafe(UnshareFlags::FS) }.is_ok();
            umask(Mode::empty());
            Preparation { own_umask, switches_ids: may_switch() && keep_capabilities() }
        })
    })
}

fn keep_capabilities() -> bool {
    capabilities_secure_bits().is_ok_and(|bits| {
        set_capabilities_secure_bits(bits | CapabilitiesSecureBits::NO_SETUID_FIXUP).is_ok()
    })
}

/// The calling thread acts as `caller` until this is dropped.
///
/// The effective ids of the thread change, and with them the file system ids; the real and saved
/// ones stay, and so do those of all other threads. Supplementary groups do not matter: with its
/// capabilities kept, the thread needs no permission.
#[derive(Debug)]
pub(super) struct ActingAs {
    uid: Option<Uid>,
    gid: Option<Gid>,
    mask: Mode,
}

impl ActingAs {
    /// Takes the caller's mask and, if `switch`, its user and group id.
    ///
    /// # Errors
    /// When the system refuses the ids.
    pub fn new(caller: Caller, switch: bool) -> rustix::io::Result<ActingAs> {
        if caller.uid == u32::MAX || caller.gid == u32::MAX {
            return Err(Errno::INVAL);
        }
        let preparation = prepare_thread();
        let mask = Mode::from_raw_mode(caller.umask & 0o777);
        let mut acting = ActingAs { uid: None, gid: None, mask: Mode::empty() };
        if preparation.own_umask {
            umask(mask);
        } else {
            acting.mask = mask;
        }
        if switch && preparation.switches_ids {
            let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
            if gid.as_raw() != caller.gid {
                set_thread_res_gid(None, Gid::from_raw(caller.gid), None)?;
                acting.gid = Some(gid);
            }
            if uid.as_raw() != caller.uid {
                set_thread_res_uid(None, Uid::from_raw(caller.uid), None)?;
                acting.uid = Some(uid);
            }
        }
        Ok(acting)
    }

    /// The permission bits to create with.
    pub fn permissions(&self, permissions: u32) -> Mode {
        Mode::from_raw_mode(permissions & 0o7777) & !self.mask
    }
}

impl Drop for ActingAs {
    fn drop(&mut self) {
        // The ids taken back are the ones the thread had and may always have again. Serving on
        // under a caller's ids would hand out its rights, so a failure ends the process.
        if let Some(uid) = self.uid {
            assert!(set_thread_res_uid(None, uid, None).is_ok(), "the thread's user id is lost");
        }
        if let Some(gid) = self.gid {
            assert!(set_thread_res_gid(None, gid, None).is_ok(), "the thread's group id is lost");
        }
        umask(Mode::empty());
    }
}
