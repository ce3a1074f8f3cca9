//! A log file that is set aside when it has its size; what was set aside is compressed and removed by a thread of its own.
//! Names and order are those of upstream's files, so that either server goes on with the other's.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread,
};

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use machinery::meta::time::{TimeForm, Timestamp};

/// A file, and what becomes of it.
#[derive(Clone, Debug, PartialEq)]
pub struct LogFile {
    /// The file that is written.
    pub path: PathBuf,
    /// The size after which it is set aside; none: never.
    pub max_bytes: Option<u64>,
    /// Days that files are kept that were set aside; 0: for ever.
    pub max_age_days: u64,
    /// How many are kept; 0: all.
    pub max_backups: usize,
    /// Whether they are compressed.
    pub compress: bool,
}

const COMPRESSED: &str = ".gz";
const DAY: i64 = 24 * 60 * 60;

impl LogFile {
    /// Makes the file and its folder where they are not there yet.
    pub(super) fn ensure(&self) -> io::Result<()> {
        if let Some(folder) = self.path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        OpenOptions::new().create(true).append(true).mode(0o600).open(&self.path).map(drop)
    }

    fn folder(&self) -> &Path {
        self.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
    }

    /// The name before and behind the time of a file that was set aside.
    fn name_parts(&self) -> (String, String) {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (stem, extension) = match name.rfind('.') {
            Some(dot) => name.split_at(dot),
            None => (name.as_str(), ""),
        };
        (format!("{stem}-"), extension.to_owned())
    }

    /// A name that no file has yet.
    fn aside(&self) -> PathBuf {
        let (before, behind) = self.name_parts();
        let mut now = Timestamp::now();
        loop {
            let path = self.folder().join(format!("{before}{}{behind}", stamp(now)));
            if !path.exists() {
                return path;
            }
            let next = now.nanos() + 1_000_000;
            now = Timestamp::new(now.seconds() + i64::from(next / 1_000_000_000), next % 1_000_000_000);
        }
    }

    /// The files that were set aside, the newest first: their names, and when.
    fn set_aside(&self) -> io::Result<Vec<(String, Timestamp)>> {
        let (before, behind) = self.name_parts();
        let mut found = Vec::new();
        for entry in fs::read_dir(self.folder())? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            let bare = name.strip_suffix(COMPRESSED).unwrap_or(&name);
            let stamp = bare.strip_prefix(&before).and_then(|rest| rest.strip_suffix(&behind));
            if let Some(time) = stamp.and_then(time_of_stamp)
                && entry.file_type().is_ok_and(|kind| kind.is_file())
            {
                found.push((name, time));
            }
        }
        found.sort_by(|a, b| (b.1, &b.0).cmp(&(a.1, &a.0)));
        Ok(found)
    }

    /// Removes files that are too many or too old, and compresses the others.
    fn tidy(&self) -> io::Result<()> {
        if self.max_backups == 0 && self.max_age_days == 0 && !self.compress {
            return Ok(());
        }
        let oldest =
            Timestamp::now().plus_seconds(-DAY.saturating_mul(self.max_age_days.try_into().unwrap_or(i64::MAX)));
        let mut kept = Vec::new();
        let mut outcome = Ok(());
        for (name, time) in self.set_aside()? {
            let bare = name.strip_suffix(COMPRESSED).unwrap_or(&name).to_owned();
            // A file that is being compressed counts once.
            if kept.last() != Some(&bare) {
                kept.push(bare.clone());
            }
            let path = self.folder().join(&name);
            let too_many = self.max_backups > 0 && kept.len() > self.max_backups;
            let result = match name == bare {
                _ if too_many || (self.max_age_days > 0 && time < oldest) => fs::remove_file(&path),
                true if self.compress => compress(&path),
                _ => Ok(()),
            };
            outcome = outcome.and(result);
        }
        outcome
    }
}

/// `2006-01-02T15-04-05.000`
fn stamp(time: Timestamp) -> String {
    let seconds = time.text(TimeForm::Seconds);
    format!("{}.{:03}", seconds.trim_end_matches('Z').replace(':', "-"), time.nanos() / 1_000_000)
}

fn time_of_stamp(stamp: &str) -> Option<Timestamp> {
    let (seconds, millis) = stamp.split_once('.')?;
    let (day, time) = seconds.split_once('T')?;
    let whole = Timestamp::parse(&format!("{day}T{}Z", time.replace('-', ":")), TimeForm::Seconds).ok()?;
    let millis: u32 = millis.parse().ok().filter(|_| millis.len() == 3)?;
    Some(Timestamp::new(whole.seconds(), millis * 1_000_000))
}

/// Replaces a file by a compressed one.
fn compress(path: &Path) -> io::Result<()> {
    let mut target = path.as_os_str().to_owned();
    target.push(COMPRESSED);
    let target = PathBuf::from(target);
    let write = || {
        let mut source = File::open(path)?;
        let mode = source.metadata()?.permissions().mode() & 0o777;
        let file = OpenOptions::new().create(true).truncate(true).write(true).mode(mode).open(&target)?;
        let mut encoder = GzEncoder::new(file, Compression::default());
        io::copy(&mut source, &mut encoder)?;
        encoder.finish()?.sync_all()
    };
    match write() {
        Ok(()) => fs::remove_file(path),
        Err(error) => {
            let _ = fs::remove_file(&target); // the source is still there
            Err(error)
        }
    }
}

/// Such a file, open.
pub(super) struct Rotating {
    options: LogFile,
    max: u64,
    /// Opened when it is written first, and again after an error.
    file: Option<File>,
    size: u64,
    tidy: SyncSender<()>,
}

impl Rotating {
    pub(super) fn new(options: LogFile) -> io::Result<Self> {
        // One request is enough: whatever was set aside meanwhile is looked at.
        let (tidy, requests) = sync_channel(1);
        let of_thread = options.clone();
        thread::Builder::new()
            .name("audit-log-tidy".to_owned())
            .spawn(move || tidy_when_asked(&of_thread, &requests))?;
        let max = options.max_bytes.unwrap_or(u64::MAX);
        Ok(Rotating { options, max, file: None, size: 0, tidy })
    }

    /// Finds a place for lines: how many of them fit, and the file. An error is about so many of them.
    pub(super) fn room_for(&mut self, lines: &[&Bytes]) -> Result<(usize, &mut dyn Write), (usize, io::Error)> {
        let first = lines.first().map_or(0, |line| line.len() as u64);
        if first > self.max {
            let why = format!("write length {first} exceeds maximum file size {}", self.max);
            return Err((1, io::Error::other(why)));
        }
        self.open(first).map_err(|error| (lines.len(), error))?;
        if self.size + first > self.max {
            self.rotate().map_err(|error| (lines.len(), error))?;
        }
        let (mut count, mut size) = (0, self.size);
        for line in lines {
            size += line.len() as u64;
            if size > self.max {
                break;
            }
            self.size = size;
            count += 1;
        }
        Ok((count, self.file.as_mut().expect("it was opened above")))
    }

    fn open(&mut self, first: u64) -> io::Result<()> {
        if self.file.is_some() {
            return Ok(());
        }
        let _ = self.tidy.try_send(());
        let metadata = match fs::metadata(&self.options.path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return self.open_new(),
            Err(error) => return Err(error),
        };
        if metadata.len() + first >= self.max {
            return self.rotate();
        }
        self.file = Some(OpenOptions::new().append(true).open(&self.options.path)?);
        self.size = metadata.len();
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        self.file = None;
        self.open_new()?;
        let _ = self.tidy.try_send(()); // a request that waits already is enough
        Ok(())
    }

    /// Sets the file aside, if there is one, and begins another one like it.
    fn open_new(&mut self) -> io::Result<()> {
        let path = &self.options.path;
        let mut mode = 0o600;
        let mut owner = None;
        match fs::metadata(path) {
            Ok(metadata) => {
                mode = metadata.permissions().mode() & 0o777;
                owner = Some((metadata.uid(), metadata.gid()));
                fs::rename(path, self.options.aside())?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.options.ensure()?,
            Err(error) => return Err(error),
        }
        let file = OpenOptions::new().create(true).truncate(true).write(true).mode(mode).open(path)?;
        if let Some((uid, gid)) = owner {
            // Where this may not be done the file is this server's, which is no reason to lose events.
            let _ = std::os::unix::fs::fchown(&file, Some(uid), Some(gid));
        }
        self.file = Some(file);
        self.size = 0;
        Ok(())
    }
}

fn tidy_when_asked(options: &LogFile, requests: &Receiver<()>) {
    while requests.recv().is_ok() {
        if let Err(error) = options.tidy() {
            tracing::warn!(%error, "cannot compress or remove old audit logs");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(folder: &Path, max_backups: usize, max_age_days: u64, compress: bool) -> LogFile {
        LogFile { path: folder.join("audit.log"), max_bytes: Some(100), max_age_days, max_backups, compress }
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("a folder");
        let mut names: Vec<String> =
            entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("text")).collect();
        names.sort();
        names
    }

    #[test]
    fn the_time_of_a_name_is_read_back() {
        let time = Timestamp::new(1_795_000_000, 42_000_000);
        assert_eq!(time_of_stamp(&stamp(time)), Some(time));
        for odd in ["", "2026-11-28T18-04-06", "2026-11-28T18-04-06.5", "2026-13-28T18-04-06.500", "x"] {
            assert_eq!(time_of_stamp(odd), None, "{odd}");
        }
    }

    #[test]
    fn a_file_is_set_aside_before_a_line_that_does_not_fit() {
        let folder = tempfile::tempdir().expect("a folder");
        let options = file(folder.path(), 0, 0, false);
        options.ensure().expect("a file");
        let mut rotating = Rotating::new(options).expect("a log");
        let line = Bytes::from(vec![b'x'; 60]);
        let lines = [&line, &line, &line];
        for _ in 0..3 {
            let (count, file) = rotating.room_for(&lines).expect("room");
            assert_eq!(count, 1);
            file.write_all(&line).expect("written");
        }
        assert_eq!(names(folder.path()).len(), 3);
        let long = Bytes::from(vec![b'x'; 101]);
        let (count, error) = rotating.room_for(&[&long, &line]).err().expect("too long");
        assert_eq!((count, error.to_string().as_str()), (1, "write length 101 exceeds maximum file size 100"));
    }

    #[test]
    fn old_files_go_and_others_are_compressed() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |seconds_ago: i64| stamp(Timestamp::now().plus_seconds(-seconds_ago));
        let make = |name: &str| fs::write(folder.path().join(name), "lines\n").expect("written");
        let [newest, second, old] = [at(10), at(20), at(3 * DAY)];
        let aside = [&newest, &second, &old].map(|stamp| format!("audit-{stamp}.log"));
        aside.iter().for_each(|name| make(name));
        make(&format!("{}.gz", aside[2]));
        for other in ["audit.log", "audit-x.log", "other.log"] {
            make(other);
        }
        file(folder.path(), 0, 2, true).tidy().expect("tidy");
        let others = ["audit-x.log", "audit.log", "other.log"];
        let expect = |aside: &[String]| {
            let mut all: Vec<String> =
                others.iter().map(|name| (*name).to_owned()).chain(aside.iter().cloned()).collect();
            all.sort();
            all
        };
        let compressed = [&aside[0], &aside[1]].map(|name| format!("{name}.gz"));
        assert_eq!(names(folder.path()), expect(&compressed));
        let mut text = String::new();
        let file_of = File::open(folder.path().join(&compressed[0])).expect("a file");
        io::Read::read_to_string(&mut flate2::read::GzDecoder::new(file_of), &mut text).expect("gzip");
        assert_eq!(text, "lines\n");
        file(folder.path(), 1, 0, false).tidy().expect("tidy");
        assert_eq!(names(folder.path()), expect(&compressed[..1]));
    }
}
