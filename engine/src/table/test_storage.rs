//! A tiny storage in memory for the unit tests of tables and tree.

use parking_lot::Mutex;
use sexton_persistence::device::{File, Storage, StorageError, StorageResult};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct MemFile {
    path: PathBuf,
    pub(crate) bytes: Mutex<Vec<u8>>,
}

impl MemFile {
    pub(crate) fn new(path: &Path, bytes: Vec<u8>) -> Arc<Self> {
        Arc::new(Self { path: path.to_path_buf(), bytes: Mutex::new(bytes) })
    }
}

impl File for MemFile {
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> StorageResult<()> {
        let bytes = self.bytes.lock();
        let found = usize::try_from(offset).ok().and_then(|o| bytes.get(o..o + buf.len()));
        let Some(found) = found else {
            let eof = io::Error::from(io::ErrorKind::UnexpectedEof);
            return Err(StorageError::new("read", &self.path, eof).at(offset));
        };
        buf.copy_from_slice(found);
        Ok(())
    }
    fn write_all_at(&self, buf: &[u8], offset: u64) -> StorageResult<()> {
        let mut bytes = self.bytes.lock();
        let end = offset as usize + buf.len();
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[offset as usize..end].copy_from_slice(buf);
        Ok(())
    }
    fn sync_data(&self) -> StorageResult<()> {
        Ok(())
    }
    fn len(&self) -> StorageResult<u64> {
        Ok(self.bytes.lock().len() as u64)
    }
    fn set_len(&self, len: u64) -> StorageResult<()> {
        self.bytes.lock().resize(len as usize, 0);
        Ok(())
    }
    fn allocate(&self, _: u64, _: u64) -> StorageResult<()> {
        Ok(())
    }
    fn path(&self) -> &Path {
        &self.path
    }
}

#[derive(Debug, Default)]
pub(crate) struct MemStorage {
    pub(crate) files: Mutex<BTreeMap<PathBuf, Arc<MemFile>>>,
}

impl MemStorage {
    fn missing(operation: &'static str, path: &Path) -> StorageError {
        StorageError::new(operation, path, io::ErrorKind::NotFound.into())
    }
}

impl Storage for MemStorage {
    fn create(&self, path: &Path) -> StorageResult<Arc<dyn File>> {
        let file = MemFile::new(path, Vec::new());
        self.files.lock().insert(path.to_path_buf(), Arc::clone(&file));
        Ok(file)
    }
    fn open(&self, path: &Path) -> StorageResult<Arc<dyn File>> {
        match self.files.lock().get(path) {
            Some(file) => Ok(Arc::clone(file) as Arc<dyn File>),
            None => Err(Self::missing("open", path)),
        }
    }
    fn list(&self, dir: &Path) -> StorageResult<Vec<String>> {
        let files = self.files.lock();
        let inside = files.keys().filter(|path| path.parent() == Some(dir));
        Ok(inside.filter_map(|p| Some(p.file_name()?.to_str()?.to_owned())).collect())
    }
    fn exists(&self, path: &Path) -> StorageResult<bool> {
        Ok(self.files.lock().contains_key(path))
    }
    fn create_dir_all(&self, _: &Path) -> StorageResult<()> {
        Ok(())
    }
    fn remove(&self, path: &Path) -> StorageResult<()> {
        let gone = self.files.lock().remove(path);
        gone.map(|_| ()).ok_or_else(|| Self::missing("remove", path))
    }
    fn remove_dir(&self, _: &Path) -> StorageResult<()> {
        Ok(())
    }
    fn rename(&self, from: &Path, to: &Path) -> StorageResult<()> {
        let mut files = self.files.lock();
        let file = files.remove(from).ok_or_else(|| Self::missing("rename", from))?;
        files.insert(to.to_path_buf(), file);
        Ok(())
    }
    fn hard_link(&self, from: &Path, to: &Path) -> StorageResult<()> {
        let mut files = self.files.lock();
        let file = files.get(from).cloned().ok_or_else(|| Self::missing("link", from))?;
        files.insert(to.to_path_buf(), file);
        Ok(())
    }
    fn sync_dir(&self, _: &Path) -> StorageResult<()> {
        Ok(())
    }
    fn lock_dir(&self, _: &Path) -> StorageResult<Box<dyn Send + Sync>> {
        Ok(Box::new(()))
    }
}
