//! Folders that only this user can write to, for sockets and lock files in shared directories.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The effective user id of this process.
pub fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Makes the folder with mode 0700 if it is not there, and checks that nobody else can have put
/// anything into it.
///
/// # Errors
/// It cannot be made, belongs to another user, is a link, or others may write to it.
pub fn make(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let about = fs::symlink_metadata(folder)?;
    if about.is_dir() && about.uid() == user() && about.mode() & 0o022 == 0 {
        return Ok(());
    }
    let text = format!("expected {} to be a folder that only we can write to", folder.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
}

/// The folder for the lock files of this user, one on the machine: in `/run`, where only root may
/// make one, else in the temporary directory.
///
/// # Errors
/// As [`make`].
pub fn locks() -> io::Result<PathBuf> {
    let name = format!("roundhouse-{}", user());
    let run = Path::new("/run").join(&name);
    if make(&run).is_ok() {
        return Ok(run);
    }
    let folder = std::env::temp_dir().join(name);
    make(&folder)?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_folder_that_others_could_have_filled_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().join("own");
        make(&base).unwrap();
        assert_eq!(fs::metadata(&base).unwrap().mode() & 0o777, 0o700);
        make(&base).unwrap();
        let (wide, link) = (base.join("wide"), base.join("link"));
        fs::create_dir(&wide).unwrap();
        fs::set_permissions(&wide, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(make(&wide).unwrap_err().to_string().contains("only we can write to"));
        symlink(&base, &link).unwrap();
        assert!(make(&link).is_err());
        assert!(make(&locks().unwrap()).is_ok());
    }
}
