//! The log on a persistent-memory device, written with pmem instructions if libpmem is available.

use super::route_devices;
use crate::log;
use sexton_config::Options;
use sexton_config::device::{DeviceKind, DeviceSpec};
use sexton_persistence::device::{Device, is_in_memory};
use sexton_persistence::pmem::{MappedFiles, MappedMedium, Medium as _};
use std::path::Path;

/// Whether the log, or long records of it, lie on this device and may be mapped.
pub(super) fn is_wanted(options: &Options, spec: &DeviceSpec) -> bool {
    let name = spec.name.as_str();
    let has_log =
        options.aof_device.as_deref() == Some(name) || route_devices(options).contains(&name);
    spec.kind == DeviceKind::Pmem && has_log
}

/// Whether what is mapped in `dir` on this device stands for persistent memory: by its own word, or since an msync makes
/// nothing durable there.
pub(super) fn stands_for_pmem(device: Option<&Device>, dir: &Path) -> bool {
    device.is_some_and(|device| device.emulated().is_some()) || is_in_memory(dir)
}

/// The device with mapped segments, or as it is where it cannot have them; one line of the log says which.
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
