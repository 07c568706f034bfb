//! The database file.

use std::fmt::Display;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};

use redb::{
    DatabaseError, ReadOnlyTable, ReadTransaction, ReadableDatabase, ReadableTable, StorageError,
    TableDefinition, TableError, WriteTransaction,
};

use super::changes::{Changes, TableChanges};
use super::error::DataError;
use super::record::{self, LoadedObject};
use crate::storage::{StoredObject, StoredState, TableName};

/// The name of the file.
const FILE: &str = "objects.redb";

/// The value of [`FORMAT_KEY`] in files that this version can read.
const FORMAT: &str = "pilothouse-apiserver/1";
const FORMAT_KEY: &str = "format";
/// The key of the highest revision.
const REVISION_KEY: &str = "revision";

/// The most objects that are read, in all tables.
const MAX_OBJECTS: usize = 5_000_000;

/// Memory for pages of the file. All reads of objects are served from the tables in memory, so a small cache is enough.
const CACHE_BYTES: usize = 16 * 1024 * 1024;

const META: TableDefinition<'_, &str, &str> = TableDefinition::new("meta");
/// Objects by [`record::key`].
const OBJECTS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("objects");
/// Descriptions of named states.
const STATES: TableDefinition<'_, &str, &str> = TableDefinition::new("snapshots");
/// Objects of named states by `NAME/` and [`record::key`].
const STATE_OBJECTS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("snapshot-objects");

/// The open database. The file is locked against other processes.
#[derive(Debug)]
pub(super) struct Database {
    path: PathBuf,
    database: redb::Database,
}

impl Database {
    /// Opens the database in a directory, or creates it.
    pub(super) fn open(directory: &Path) -> Result<Self, DataError> {
        std::fs::create_dir_all(directory)
            .map_err(|error| DataError::io(directory, "create the directory", &error))?;
        let path = directory.join(FILE);
        if !path.exists() {
            create(directory, &path)?;
        }
        // The library may panic on a damaged file, at least in debug builds.
        let opened = std::panic::catch_unwind(AssertUnwindSafe(|| {
            redb::Database::builder()
                .set_cache_size(CACHE_BYTES)
                .set_check_integrity_on_open(true)
                .open(&path)
        }));
        let database = match opened {
            Ok(Ok(database)) => database,
            Ok(Err(error)) => return Err(opening_error(&path, error)),
            Err(_) => return Err(DataError::damaged(&path, "its pages contradict each other")),
        };
        let database = Self { path, database };
        database.check_format()?;
        Ok(database)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Checks that this server wrote the file.
    fn check_format(&self) -> Result<(), DataError> {
        let foreign = |problem: String| DataError::foreign(&self.path, problem);
        let meta = self.begin_read()?.open_table(META).map_err(|error| foreign(error.to_string()))?;
        let format = meta.get(FORMAT_KEY).map_err(|error| self.damaged(&error))?;
        let format = format.map(|format| format.value().to_owned()).unwrap_or_default();
        if format == FORMAT {
            return Ok(());
        }
        Err(foreign(format!("its format is {format:?}, and this version reads {FORMAT:?}")))
    }

    /// Returns the highest revision of a committed change; `None` for a new file.
    pub(super) fn revision(&self) -> Result<Option<u64>, DataError> {
        let meta = self.open_table(&self.begin_read()?, META)?;
        let Some(text) = meta.get(REVISION_KEY).map_err(|error| self.damaged(&error))? else {
            return Ok(None);
        };
        let revision = text.value().parse::<u64>();
        revision.map(Some).map_err(|_| self.damaged(&format!("the revision is {:?}", text.value())))
    }

    /// Passes all objects to `on_object`.
    pub(super) fn load(&self, on_object: &mut dyn FnMut(LoadedObject)) -> Result<(), DataError> {
        let objects = self.open_table(&self.begin_read()?, OBJECTS)?;
        self.read_objects(&objects, "", &mut |_, object| on_object(object))
    }

    /// Returns all named states with their descriptions.
    pub(super) fn states(&self) -> Result<Vec<(String, String, StoredState)>, DataError> {
        let reading = self.begin_read()?;
        let (descriptions, objects) =
            (self.open_table(&reading, STATES)?, self.open_table(&reading, STATE_OBJECTS)?);
        let mut states = Vec::new();
        for entry in descriptions.iter().map_err(|error| self.damaged(&error))? {
            let (name, description) = entry.map_err(|error| self.damaged(&error))?;
            let (name, description) = (name.value().to_owned(), description.value().to_owned());
            let mut state = StoredState::default();
            self.read_objects(&objects, &format!("{name}/"), &mut |table, loaded| {
                state.revision = state.revision.max(loaded.revision);
                let object = StoredObject::new(loaded.object, loaded.revision);
                state.tables.entry(table).or_default().push(object.into());
            })?;
            states.push((name, description, state));
        }
        Ok(states)
    }

    /// Reads the objects whose keys begin with `prefix`, which is not part of their own keys.
    fn read_objects(
        &self,
        objects: &ReadOnlyTable<&'static str, &'static [u8]>,
        prefix: &str,
        on_object: &mut dyn FnMut(TableName, LoadedObject),
    ) -> Result<(), DataError> {
        let entries = objects.range(prefix..).map_err(|error| self.damaged(&error))?;
        for (index, entry) in entries.enumerate() {
            let (key, value) = entry.map_err(|error| self.damaged(&error))?;
            let Some(own_key) = key.value().strip_prefix(prefix) else { break };
            if index >= MAX_OBJECTS {
                return Err(self.damaged(&format!("it has more than {MAX_OBJECTS} objects")));
            }
            let loaded = record::decode(own_key, value.value())
                .map_err(|problem| self.damaged(&format!("object {own_key:?}: {problem}")))?;
            on_object(loaded.table.clone(), loaded);
        }
        Ok(())
    }

    /// Writes changes. They are on disk, all of them, when this returns.
    pub(super) fn commit(&self, changes: Changes) -> Result<(), DataError> {
        self.try_commit(changes).map_err(|error| DataError::write(&self.path, &error))
    }

    fn try_commit(&self, changes: Changes) -> Result<(), WriteError> {
        let writing = self.database.begin_write()?;
        if changes.revision > 0 {
            let revision = changes.revision.to_string();
            writing.open_table(META)?.insert(REVISION_KEY, revision.as_str())?;
        }
        for (table, changes) in changes.tables {
            write_table(&writing, &table, changes)?;
        }
        writing.commit()?;
        Ok(())
    }

    /// Stores a named state; replaces the one of this name.
    pub(super) fn save_state(
        &self,
        name: &str,
        description: &str,
        state: &StoredState,
    ) -> Result<(), DataError> {
        let save = || -> Result<(), WriteError> {
            let writing = self.database.begin_write()?;
            remove_prefix(&writing, STATE_OBJECTS, &format!("{name}/"))?;
            writing.open_table(STATES)?.insert(name, description)?;
            {
                let mut objects = writing.open_table(STATE_OBJECTS)?;
                for (table, stored) in &state.tables {
                    for object in stored {
                        let key = record::key(table, &object.namespace, &object.name);
                        let value = record::encode(object)?;
                        objects.insert(format!("{name}/{key}").as_str(), value.as_slice())?;
                    }
                }
            }
            writing.commit()?;
            Ok(())
        };
        save().map_err(|error| DataError::write(&self.path, &error))
    }

    /// Removes a named state.
    pub(super) fn remove_state(&self, name: &str) -> Result<(), DataError> {
        let remove = || -> Result<(), WriteError> {
            let writing = self.database.begin_write()?;
            remove_prefix(&writing, STATE_OBJECTS, &format!("{name}/"))?;
            writing.open_table(STATES)?.remove(name)?;
            writing.commit()?;
            Ok(())
        };
        remove().map_err(|error| DataError::write(&self.path, &error))
    }

    fn begin_read(&self) -> Result<ReadTransaction, DataError> {
        self.database.begin_read().map_err(|error| DataError::io(&self.path, "read", &error))
    }

    fn open_table<K: redb::Key + 'static, V: redb::Value + 'static>(
        &self,
        reading: &ReadTransaction,
        definition: TableDefinition<'_, K, V>,
    ) -> Result<ReadOnlyTable<K, V>, DataError> {
        reading.open_table(definition).map_err(|error| self.damaged(&error))
    }

    fn damaged(&self, problem: &impl Display) -> DataError {
        DataError::damaged(&self.path, problem.to_string())
    }
}

/// Creates an empty database. It gets its name when it is complete, so that a crash leaves no partial one.
fn create(directory: &Path, path: &Path) -> Result<(), DataError> {
    let failed = |error: &dyn Display| DataError::io(path, "create", &error);
    let file = tempfile::Builder::new().prefix(".objects-").tempfile_in(directory);
    let file = file.map_err(|error| failed(&error))?;
    create_tables(file.path()).map_err(|error| failed(&error))?;
    match file.persist_noclobber(path) {
        Ok(_) => {}
        // Another process created it.
        Err(error) if error.error.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(failed(&error.error)),
    }
    let synced = std::fs::File::open(directory).and_then(|directory| directory.sync_all());
    synced.map_err(|error| failed(&error))
}

/// Creates the tables of a new database in an empty file.
fn create_tables(path: &Path) -> Result<(), redb::Error> {
    let database = redb::Database::create(path)?;
    let writing = database.begin_write()?;
    writing.open_table(META)?.insert(FORMAT_KEY, FORMAT)?;
    writing.open_table(OBJECTS)?;
    writing.open_table(STATES)?;
    writing.open_table(STATE_OBJECTS)?;
    writing.commit()?;
    Ok(())
}

/// Writes the changes of one table.
fn write_table(
    writing: &WriteTransaction,
    table: &TableName,
    changes: TableChanges,
) -> Result<(), WriteError> {
    if changes.is_cleared {
        remove_prefix(writing, OBJECTS, &record::key_prefix(table))?;
    }
    let mut objects = writing.open_table(OBJECTS)?;
    for ((namespace, name), object) in changes.objects {
        let key = record::key(table, &namespace, &name);
        match object {
            Some(object) => drop(objects.insert(key.as_str(), record::encode(&object)?.as_slice())?),
            None => drop(objects.remove(key.as_str())?),
        }
    }
    Ok(())
}

/// Removes all entries whose keys begin with `prefix`, which ends with a slash.
fn remove_prefix(
    writing: &WriteTransaction,
    definition: TableDefinition<'_, &'static str, &'static [u8]>,
    prefix: &str,
) -> Result<(), WriteError> {
    let mut table = writing.open_table(definition)?;
    // `0` is the character after the slash.
    let end = format!("{}0", prefix.trim_end_matches('/'));
    table.retain_in(prefix..end.as_str(), |_, _| false)?;
    Ok(())
}

/// Returns why a file cannot be opened.
fn opening_error(path: &Path, error: DatabaseError) -> DataError {
    match error {
        DatabaseError::DatabaseAlreadyOpen | DatabaseError::LockProtocolMismatch => {
            DataError::InUse { path: path.to_owned() }
        }
        DatabaseError::Storage(StorageError::Io(error))
            if error.kind() == std::io::ErrorKind::InvalidData =>
        {
            DataError::foreign(path, error.to_string())
        }
        DatabaseError::Storage(StorageError::Io(error)) => DataError::io(path, "open", &error),
        DatabaseError::UpgradeRequired(_) => DataError::foreign(path, error.to_string()),
        error => DataError::damaged(path, error.to_string()),
    }
}

/// Why a transaction failed.
#[derive(Debug, thiserror::Error)]
enum WriteError {
    #[error(transparent)]
    Database(redb::Error),
    #[error("an object cannot be encoded: {0}")]
    Encode(#[from] serde_json::Error),
}

macro_rules! from_database_error {
    ($($error:ty),*) => {
        $(impl From<$error> for WriteError {
            fn from(error: $error) -> Self {
                Self::Database(error.into())
            }
        })*
    };
}

from_database_error!(redb::TransactionError, TableError, StorageError, redb::CommitError);
