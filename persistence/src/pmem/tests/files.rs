//! Files of the log by way of libpmem (Debian package libpmem1; scripts/setup.sh test installs it).

use std::path::Path;
use std::sync::Arc;

use crate::device::{DiskStorage, File, Mapper as _, Storage as _, TempDir};
use crate::pmem::{MappedFiles, MappedMedium};

/// A file of 8192 blanks, mapped, and a second handle that is not.
fn mapped(dir: &Path, emulated: bool) -> (Arc<dyn File>, Arc<dyn File>) {
    let medium = MappedMedium::load(dir, emulated).expect("libpmem, see scripts/setup.sh");
    let files = MappedFiles::new(medium);
    assert_eq!(files.name(), if emulated { "emulated" } else { "msync" });
    let plain = DiskStorage.create(&dir.join("log")).expect("creates");
    plain.write_all_at(&[b' '; 8192], 0).expect("writes");
    plain.sync_data().expect("syncs");
    let file = DiskStorage.open(&dir.join("log")).expect("opens");
    (files.map(file).expect("maps"), plain)
}

#[test]
fn what_is_copied_and_what_is_written_behind_it_are_in_the_file() {
    for emulated in [true, false] {
        let dir = TempDir::new("mapped-file");
        let (file, plain) = mapped(&dir, emulated);
        let mut expected = vec![b' '; 8192];
        for (nth, offset) in [0, 64, 100, 4090, 8185, 8192, 9000].into_iter().enumerate() {
            let bytes = [nth as u8 + b'a'; 7];
            file.write_all_at(&bytes, offset as u64).expect("writes");
            file.sync_data().expect("syncs");
            expected.resize(expected.len().max(offset + 7), 0);
            expected[offset..offset + 7].copy_from_slice(&bytes);
            let len = plain.len().expect("a length");
            assert_eq!((len, file.len().expect("a length")), (expected.len() as u64, len));
            for handle in [&file, &plain] {
                let mut found = vec![0; expected.len()];
                handle.read_exact_at(&mut found, 0).expect("reads");
                assert!(found == expected, "after the write at {offset}");
            }
        }
        file.write_all_at(b"across", 8190).expect("writes");
        let mut found = [0; 6];
        plain.read_exact_at(&mut found, 8190).expect("reads");
        assert_eq!(&found, b"across", "one write, partly behind the mapping");
    }
}

#[test]
fn a_mapped_file_is_not_cut_under_its_mapping() {
    let dir = TempDir::new("mapped-cut");
    let (file, plain) = mapped(&dir, true);
    assert!(file.set_len(8191).is_err());
    file.set_len(10_000).expect("longer does no harm");
    file.write_all_at(b"still here", 0).expect("writes");
    assert_eq!(plain.len().expect("a length"), 10_000);
}
