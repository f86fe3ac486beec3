//! The log on a persistent-memory device, written with pmem instructions if libpmem is available.

use super::route_devices;
use crate::log;
use sexton_config::Options;
use sexton_config::device::{DeviceKind, DeviceSpec};
use sexton_persistence::device::{Device, is_in_memory};
use sexton_persistence::pmem::{MappedFiles, MappedMedium, Medium as _};
use std::path::Path;

/// Whether the log, or its long records, are stored on this device and may be mapped.
pub(super) fn is_wanted(options: &Options, spec: &DeviceSpec) -> bool {
    let name = spec.name.as_str();
    let has_log =
        options.aof_device.as_deref() == Some(name) || route_devices(options).contains(&name);
    spec.kind == DeviceKind::Pmem && has_log
}

/// Whether mappings in `dir` on this device represent persistent memory: the device is declared emulated, or msync has no
/// effect there.
pub(super) fn stands_for_pmem(device: Option<&Device>, dir: &Path) -> bool {
    device.is_some_and(|device| device.emulated().is_some()) || is_in_memory(dir)
}

/// The device with mapped segments, or unchanged if mapping is impossible; one log line says which.
pub(super) fn try_on(device: Device) -> Device {
    match MappedMedium::load(device.dir(), stands_for_pmem(Some(&device), device.dir())) {
        Ok(medium) => {
            let how = medium.kind().describe();
            log::notice(&format!("The log on device {} is mapped: {how}", device.name()));
            device.mapping(MappedFiles::new(medium))
        }
        Err(error) => {
            log::warning(&format!(
                "The log on device {} is not mapped, but written with write and fdatasync: {error}",
                device.name()
            ));
            device
        }
    }
}
