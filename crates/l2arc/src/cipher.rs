use chacha20poly1305::aead::AeadInOut;
use chacha20poly1305::{KeyInit, Tag, XChaCha20Poly1305, XNonce};

/// What a key takes, bytes.
///
/// ```
/// // What is too short is no key.
/// let key = <[u8; l2arc::CIPHER_KEY_BYTES]>::try_from(b"secret".as_slice());
/// assert!(key.is_err());
/// ```
pub const CIPHER_KEY_BYTES: usize = 32;

/// What encryption adds to a record, bytes.
pub(crate) const TAG_BYTES: usize = 16;

/// Encrypts what lies on flash (XChaCha20-Poly1305). Keys and sizes of records stay readable.
///
/// ```
/// use l2arc::{Cipher, Options};
///
/// let key = [7; 32];
/// let options = Options { cipher: Some(Cipher::new(&key)), ..Options::default() };
/// assert_eq!(format!("{:?}", options.cipher), "Some(Cipher)", "the key is not told");
/// ```
#[derive(Clone)]
pub struct Cipher {
    cipher: XChaCha20Poly1305,
}

impl std::fmt::Debug for Cipher {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Cipher")
    }
}

/// What a record is encrypted with besides the key: never the same twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Nonce {
    /// Of the journal, which begins another one at each start.
    pub(crate) epoch: u32,
    pub(crate) counter: u64,
}

impl Nonce {
    /// Two devices, or two lives of one, differ in the salt.
    fn bytes(self, salt: &[u8; 16]) -> XNonce {
        let mut bytes = [0; 24];
        bytes[..12].copy_from_slice(&salt[..12]);
        bytes[12..16].copy_from_slice(&self.epoch.to_le_bytes());
        bytes[16..].copy_from_slice(&self.counter.to_le_bytes());
        bytes.into()
    }
}

impl Cipher {
    /// A cipher with this key.
    ///
    /// ```
    /// use l2arc::{CIPHER_KEY_BYTES, Cipher};
    ///
    /// let mut key = [0; CIPHER_KEY_BYTES];
    /// # let directory = tempfile::tempdir().expect("a directory");
    /// # let path = directory.path().join("key");
    /// # std::fs::write(&path, [7; CIPHER_KEY_BYTES]).expect("it can be written");
    /// key.copy_from_slice(&std::fs::read(&path).expect("it can be read"));
    /// let cipher = Cipher::new(&key);
    /// ```
    pub fn new(key: &[u8; CIPHER_KEY_BYTES]) -> Cipher {
        Cipher { cipher: XChaCha20Poly1305::new(key.into()) }
    }

    /// Encrypts `bytes` and adds the tag.
    pub(crate) fn encrypt(&self, nonce: Nonce, salt: &[u8; 16], bytes: &mut Vec<u8>) {
        let tag = self
            .cipher
            .encrypt_inout_detached(&nonce.bytes(salt), &[], bytes.as_mut_slice().into())
            .expect("a record is shorter than what the cipher takes");
        bytes.extend_from_slice(&tag);
    }

    /// Decrypts `bytes`, which end with the tag, in place. `None` if they are not what was
    /// encrypted.
    pub(crate) fn decrypt<'a>(
        &self,
        nonce: Nonce,
        salt: &[u8; 16],
        bytes: &'a mut [u8],
    ) -> Option<&'a [u8]> {
        let at = bytes.len().checked_sub(TAG_BYTES)?;
        let (body, tag) = bytes.split_at_mut(at);
        let tag = Tag::try_from(&*tag).ok()?;
        self.cipher
            .decrypt_inout_detached(&nonce.bytes(salt), &[], (&mut *body).into(), &tag)
            .ok()?;
        Some(body)
    }
}
