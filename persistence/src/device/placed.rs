//! Files on named devices: each path belongs to the device whose directory contains it. The device counts its
//! operations and, where it is emulated, delays them as the modelled device would.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use sexton_config::device::DeviceKind;
use sexton_config::profile::DeviceProfile;

use super::clock::Clock;
use super::meter::{DeviceFigures, Meter};
use super::model::Model;
use super::{File, IoStyle, Mapper, Storage, StorageResult};

/// A named place for files.
#[derive(Debug)]
pub struct Device {
    name: String,
    kind: Option<DeviceKind>,
    dir: PathBuf,
    /// Paths on this device.
    roots: Vec<PathBuf>,
    meter: Meter,
    model: Option<Model>,
    mapper: Option<Arc<dyn Mapper>>,
}

impl Device {
    /// A device in `dir`. `kind` is not known of the data directory itself.
    #[must_use]
    pub fn new(name: &str, kind: Option<DeviceKind>, dir: PathBuf) -> Self {
        let roots = vec![dir.clone()];
        let (name, meter) = (name.to_owned(), Meter::default());
        Self { name, kind, dir, roots, meter, model: None, mapper: None }
    }

    /// Adds `path`, which is on this device, too, by way of a link.
    #[must_use]
    pub fn holding(mut self, path: PathBuf) -> Self {
        self.roots.push(path);
        self
    }

    /// How much of `path` is a directory of this device.
    fn holds(&self, path: &Path) -> Option<usize> {
        let roots = self.roots.iter().filter(|root| path.starts_with(root));
        roots.map(|root| root.components().count()).max()
    }

    /// Adds the delays of an emulated device to its own.
    #[must_use]
    pub fn emulating(mut self, profile: DeviceProfile, clock: Arc<dyn Clock>) -> Self {
        self.model = Some(Model::new(profile, clock));
        self
    }

    /// Allows its files to be mapped by `mapper`.
    #[must_use]
    pub fn mapping(mut self, mapper: Arc<dyn Mapper>) -> Self {
        self.mapper = Some(mapper);
        self
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it was declared to be.
    #[must_use]
    pub fn kind(&self) -> Option<DeviceKind> {
        self.kind
    }

    /// Its directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The profile it emulates.
    #[must_use]
    pub fn emulated(&self) -> Option<&str> {
        self.model.as_ref().map(|model| model.profile().name.as_str())
    }

    /// How files are mapped that may be; `None` where none is.
    #[must_use]
    pub fn mapped(&self) -> Option<&'static str> {
        self.mapper.as_ref().map(|mapper| mapper.name())
    }

    /// What it has done since the start.
    #[must_use]
    pub fn figures(&self) -> DeviceFigures {
        self.meter.figures()
    }

    /// Counts `bytes` that were copied into mapped files of the device since `begun`, and waits as long as the
    /// device that it emulates takes for them.
    pub fn note_mapped_write(&self, bytes: u64, begun: Instant) {
        if let Some(model) = &self.model {
            model.write(&self.dir, 0, bytes, false);
            model.sync(&self.dir);
        }
        self.meter.wrote(bytes as usize, begun.elapsed());
    }

    fn count_failure<T>(&self, result: StorageResult<T>) -> StorageResult<T> {
        result.inspect_err(|_| self.meter.failed())
    }
}

#[derive(Debug)]
struct PlacedFile {
    inner: Arc<dyn File>,
    device: Arc<Device>,
}

impl File for PlacedFile {
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> StorageResult<()> {
        let begun = Instant::now();
        self.device.count_failure(self.inner.read_exact_at(buf, offset))?;
        if let Some(model) = &self.device.model {
            model.read(self.inner.path(), offset, buf.len() as u64);
        }
        self.device.meter.read(buf.len(), begun.elapsed());
        Ok(())
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> StorageResult<()> {
        let begun = Instant::now();
        let end = offset + buf.len() as u64;
        let grows = self.device.model.is_some() && self.inner.len()? < end;
        self.device.count_failure(self.inner.write_all_at(buf, offset))?;
        if let Some(model) = &self.device.model {
            model.write(self.inner.path(), offset, buf.len() as u64, grows);
        }
        self.device.meter.wrote(buf.len(), begun.elapsed());
        Ok(())
    }

    fn sync_data(&self) -> StorageResult<()> {
        let begun = Instant::now();
        self.device.count_failure(self.inner.sync_data())?;
        if let Some(model) = &self.device.model {
            model.sync(self.inner.path());
        }
        self.device.meter.synced(begun.elapsed());
        Ok(())
    }

    fn start_writeback(&self, offset: u64, len: u64) -> StorageResult<()> {
        self.device.count_failure(self.inner.start_writeback(offset, len))
    }

    fn finish_writeback(&self, offset: u64, len: u64) -> StorageResult<()> {
        self.device.count_failure(self.inner.finish_writeback(offset, len))
    }

    fn prefetch(&self, offset: u64, len: u64) -> StorageResult<()> {
        self.inner.prefetch(offset, len)
    }

    fn len(&self) -> StorageResult<u64> {
        self.inner.len()
    }

    fn set_len(&self, len: u64) -> StorageResult<()> {
        self.device.count_failure(self.inner.set_len(len))
    }

    fn allocate(&self, offset: u64, len: u64) -> StorageResult<()> {
        self.device.count_failure(self.inner.allocate(offset, len))
    }

    fn style(&self) -> IoStyle {
        match self.device.kind {
            Some(DeviceKind::Hdd) => IoStyle::DISK,
            _ => self.inner.style(),
        }
    }

    fn path(&self) -> &Path {
        self.inner.path()
    }
}

/// A storage whose paths are on named devices.
#[derive(Debug)]
pub struct PlacedStorage {
    inner: Arc<dyn Storage>,
    /// The first one takes what is in no other's directory.
    devices: Vec<Arc<Device>>,
}

impl PlacedStorage {
    /// Puts `devices` around `inner`; what is in the directory of none belongs to `default`.
    #[must_use]
    pub fn new(inner: Arc<dyn Storage>, default: Device, devices: Vec<Device>) -> Self {
        let devices = std::iter::once(default).chain(devices).map(Arc::new).collect();
        Self { inner, devices }
    }

    /// The devices, that of the data directory first.
    #[must_use]
    pub fn devices(&self) -> &[Arc<Device>] {
        &self.devices
    }

    /// The device with the longest directory above `path`.
    fn device_of(&self, path: &Path) -> &Arc<Device> {
        let others = self.devices[1..].iter().filter(|device| device.holds(path).is_some());
        others.max_by_key(|device| device.holds(path)).unwrap_or(&self.devices[0])
    }

    fn place(
        &self,
        path: &Path,
        file: StorageResult<Arc<dyn File>>,
    ) -> StorageResult<Arc<dyn File>> {
        let device = self.device_of(path);
        let inner = device.count_failure(file)?;
        Ok(Arc::new(PlacedFile { inner, device: Arc::clone(device) }))
    }
}

impl Storage for PlacedStorage {
    fn create(&self, path: &Path) -> StorageResult<Arc<dyn File>> {
        self.place(path, self.inner.create(path))
    }

    fn open(&self, path: &Path) -> StorageResult<Arc<dyn File>> {
        self.place(path, self.inner.open(path))
    }

    fn open_to_read(&self, path: &Path) -> StorageResult<Arc<dyn File>> {
        self.place(path, self.inner.open_to_read(path))
    }

    fn create_unbuffered(&self, path: &Path) -> StorageResult<Arc<dyn File>> {
        self.place(path, self.inner.create_unbuffered(path))
    }

    fn open_unbuffered(&self, path: &Path) -> StorageResult<Arc<dyn File>> {
        self.place(path, self.inner.open_unbuffered(path))
    }

    fn maps(&self, path: &Path) -> bool {
        self.device_of(path).mapper.is_some()
    }

    fn open_mapped(&self, path: &Path) -> StorageResult<Arc<dyn File>> {
        let mapper = self.device_of(path).mapper.as_ref();
        let file = self.inner.open(path);
        self.place(
            path,
            file.and_then(|file| mapper.map_or(Ok(Arc::clone(&file)), |m| m.map(file))),
        )
    }

    fn list(&self, dir: &Path) -> StorageResult<Vec<String>> {
        self.inner.list(dir)
    }

    fn exists(&self, path: &Path) -> StorageResult<bool> {
        self.inner.exists(path)
    }

    fn create_dir_all(&self, dir: &Path) -> StorageResult<()> {
        self.device_of(dir).count_failure(self.inner.create_dir_all(dir))
    }

    fn remove(&self, path: &Path) -> StorageResult<()> {
        let device = self.device_of(path);
        device.count_failure(self.inner.remove(path))?;
        if let Some(model) = &device.model {
            model.forget(path);
        }
        Ok(())
    }

    fn remove_dir(&self, dir: &Path) -> StorageResult<()> {
        self.device_of(dir).count_failure(self.inner.remove_dir(dir))
    }

    fn rename(&self, from: &Path, to: &Path) -> StorageResult<()> {
        self.device_of(to).count_failure(self.inner.rename(from, to))
    }

    fn hard_link(&self, from: &Path, to: &Path) -> StorageResult<()> {
        self.inner.hard_link(from, to)
    }

    fn sync_dir(&self, dir: &Path) -> StorageResult<()> {
        let device = self.device_of(dir);
        let begun = Instant::now();
        device.count_failure(self.inner.sync_dir(dir))?;
        if let Some(model) = &device.model {
            model.sync(dir);
        }
        device.meter.synced(begun.elapsed());
        Ok(())
    }

    fn lock_dir(&self, dir: &Path) -> StorageResult<Box<dyn Send + Sync>> {
        self.inner.lock_dir(dir)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::sim::{SimFaults, SimStorage};

    #[test]
    fn what_is_done_counts_for_the_device_with_the_longest_directory() {
        let sim = SimStorage::new();
        let storage = PlacedStorage::new(
            Arc::new(sim.clone()),
            Device::new("dir", None, PathBuf::from("/data")),
            vec![
                Device::new("big", Some(DeviceKind::Hdd), PathBuf::from("/big")),
                Device::new("log", Some(DeviceKind::Nvme), PathBuf::from("/big/log"))
                    .holding("/data/linked".into()),
            ],
        );
        for dir in ["/data", "/data/linked", "/big", "/big/log", "/bigger"] {
            storage.create_dir_all(Path::new(dir)).unwrap();
        }
        for (path, bytes) in [
            ("/data/a", 1),
            ("/big/a", 10),
            ("/big/log/a", 100),
            ("/data/linked/a", 200),
            ("/bigger/a", 1000),
        ] {
            let file = storage.create(Path::new(path)).unwrap();
            file.write_all_at(&vec![7; bytes], 0).unwrap();
            file.start_writeback(0, bytes as u64).unwrap();
            file.sync_data().unwrap();
            let file = storage.open(Path::new(path)).unwrap();
            file.read_exact_at(&mut [0], 0).unwrap();
            let is_disk = path == "/big/a";
            assert_eq!(file.style() == IoStyle::DISK, is_disk, "{path}");
        }
        let written: Vec<u64> =
            storage.devices().iter().map(|device| device.figures().written_bytes).collect();
        assert_eq!(written, [1001, 10, 300]);
        assert_eq!(sim.counters().writebacks, 5, "hints are handed on");
        let log = storage.devices()[2].figures();
        assert_eq!((log.reads.operations, log.writes.operations, log.syncs.operations), (2, 2, 2));
        sim.set_faults(SimFaults { fail_sync: Some(1), ..SimFaults::default() });
        let file = storage.open(Path::new("/big/a")).unwrap();
        file.sync_data().unwrap_err();
        let big = storage.devices()[1].figures();
        assert_eq!((big.errors, big.syncs.operations), (1, 1), "a failure is no sync");
    }
}
