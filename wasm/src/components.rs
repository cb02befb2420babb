//! The components: compiled once, kept in memory, compiled again when their file has changed.

use crate::instance::State;
use crate::limits::Limits;
use crate::log::Log;
use crate::options::Options;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use wasmtime::component::{Component, Linker};
use wasmtime::{Config, Engine, InstanceAllocationStrategy, PoolingAllocationConfig};
use wasmtime_wasi_http::p2::bindings::ProxyPre;

/// Components of a directory at most.
const COMPONENTS_MAX: usize = 1024;
/// Bytes of a component's file at most.
const FILE_BYTES_MAX: u64 = 512 << 20;
/// Of one component: memories, tables and core instances at most. Composed ones have some of each.
const MEMORIES_MAX: u32 = 4;
const TABLES_MAX: u32 = 16;
const CORE_INSTANCES_MAX: u32 = 32;
/// Bytes of a memory that stay with its place in the pool, so that the next request need not fault them in.
const RESIDENT_BYTES: usize = 256 << 10;

/// Why a component is not served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ComponentError {
    /// The machine does not give what the pool needs.
    #[error("cannot reserve the pool of instances: {0:#}; lower --instances or raise ulimit -v")]
    Pool(wasmtime::Error),
    /// A file or directory cannot be read.
    #[error("{}: {error}; name a component or a directory of components", path.display())]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// A file is larger than any component.
    #[error("{}: it has more than 512 MiB; is it a component?", .0.display())]
    Large(PathBuf),
    /// A file is no component that this program can run.
    #[error("{}: no component: {error:#}; a core module becomes one by `wasm-tools component new`", path.display())]
    Compile {
        /// The file.
        path: PathBuf,
        /// What the compiler says.
        error: wasmtime::Error,
    },
    /// A component imports or lacks something.
    #[error("{}: {error:#}; a component exports wasi:http/incoming-handler and imports only WASI 0.2", path.display())]
    World {
        /// The file.
        path: PathBuf,
        /// What does not fit.
        error: wasmtime::Error,
    },
    /// A directory has no component.
    #[error("{}: there is no file that ends with .wasm", .0.display())]
    Empty(PathBuf),
    /// A directory has too many.
    #[error("{}: there are more than 1024 components; use several directories", .0.display())]
    Many(PathBuf),
}

/// A component that can be instantiated.
pub(crate) struct Served {
    /// Its file's name, for the log.
    pub(crate) name: String,
    /// Compiled, with all imports resolved.
    pub(crate) ready: ProxyPre<State>,
}

/// How a file looked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Look {
    inode: u64,
    bytes: u64,
    changed: (i64, i64),
}

impl Look {
    fn of(path: &Path) -> io::Result<Self> {
        let metadata = fs::metadata(path)?;
        let changed = (metadata.mtime(), metadata.mtime_nsec());
        Ok(Self { inode: metadata.ino(), bytes: metadata.len(), changed })
    }
}

/// How each file looked when it was compiled or refused, and how at the last look.
type Looks = BTreeMap<PathBuf, (Option<Look>, Option<Look>)>;

/// All components of a command line.
pub(crate) struct Components {
    engine: Engine,
    linker: Linker<State>,
    source: PathBuf,
    is_directory: bool,
    log: Log,
    served: RwLock<BTreeMap<PathBuf, Arc<Served>>>,
    looks: Mutex<Looks>,
}

impl Components {
    /// Compiles all components; each must be one.
    pub(crate) fn load(options: &Options, log: Log) -> Result<Self, ComponentError> {
        let engine = engine(&options.limits).map_err(ComponentError::Pool)?;
        let linker = linker(&engine).map_err(ComponentError::Pool)?;
        let source = options.source.clone();
        let is_directory =
            fs::metadata(&source).map_err(|error| ComponentError::Read { path: source.clone(), error })?.is_dir();
        let own =
            Self { engine, linker, source, is_directory, log, served: RwLock::default(), looks: Mutex::default() };
        let files = own.files()?;
        if files.is_empty() {
            return Err(ComponentError::Empty(own.source));
        }
        for path in files {
            let look = Look::of(&path).ok();
            let served = own.compile(&path)?;
            own.lock().insert(path.clone(), (look, look));
            own.served.write().unwrap_or_else(PoisonError::into_inner).insert(path, Arc::new(served));
        }
        Ok(own)
    }

    /// The engine of all components.
    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The component that answers this path: the only one, or that of the first segment's name.
    pub(crate) fn of_path(&self, path: &str) -> Option<Arc<Served>> {
        let served = self.served.read().unwrap_or_else(PoisonError::into_inner);
        if !self.is_directory {
            return served.values().next().cloned();
        }
        let name = path.strip_prefix('/')?.split('/').next()?;
        // Names with dots or percent signs lead nowhere, so that a path has one spelling and stays in the directory.
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if name.is_empty() || !name.bytes().all(is_name) {
            return None;
        }
        served.get(&self.source.join(format!("{name}.wasm"))).cloned()
    }

    /// Compiles what has changed, and forgets what is gone from the directory. It blocks for as long as that takes.
    pub(crate) fn refresh(&self) {
        let files = match self.files() {
            Ok(files) => files,
            Err(error) => {
                self.log.line(&format!("weir-wasm: {error}; the components stay as they are"));
                return;
            }
        };
        for path in &files {
            if let Some(look) = self.changed(path) {
                self.renew(path, look);
            }
        }
        if self.is_directory {
            self.lock().retain(|path, _| files.contains(path));
            self.served.write().unwrap_or_else(PoisonError::into_inner).retain(|path, _| files.contains(path));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Looks> {
        self.looks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How a file looks, if it is another than the known one and no longer being written.
    fn changed(&self, path: &Path) -> Option<Look> {
        let look = Look::of(path).ok();
        let mut looks = self.lock();
        let (known, last) = looks.entry(path.to_owned()).or_default();
        let rests = *last == look;
        *last = look;
        look.filter(|_| rests && *known != look)
    }

    fn renew(&self, path: &Path, look: Look) {
        match self.compile(path) {
            Ok(served) => {
                self.log.line(&format!("weir-wasm: {} is loaded", served.name));
                self.served.write().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned(), Arc::new(served));
            }
            Err(error) => self.log.line(&format!("weir-wasm: {error}; what was loaded before stays")),
        }
        self.lock().entry(path.to_owned()).or_default().0 = Some(look);
    }

    fn files(&self) -> Result<Vec<PathBuf>, ComponentError> {
        if !self.is_directory {
            return Ok(vec![self.source.clone()]);
        }
        let failed = |error| ComponentError::Read { path: self.source.clone(), error };
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.source).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.extension().is_some_and(|ending| ending == "wasm") && path.is_file() {
                files.push(path);
            }
            if files.len() > COMPONENTS_MAX {
                return Err(ComponentError::Many(self.source.clone()));
            }
        }
        files.sort();
        Ok(files)
    }

    fn compile(&self, path: &Path) -> Result<Served, ComponentError> {
        let read = |error| ComponentError::Read { path: path.to_owned(), error };
        if fs::metadata(path).map_err(read)?.len() > FILE_BYTES_MAX {
            return Err(ComponentError::Large(path.to_owned()));
        }
        let bytes = fs::read(path).map_err(read)?;
        // Only wasm: `Component::new` takes no precompiled code, which would run unchecked.
        let component = Component::new(&self.engine, &bytes)
            .map_err(|error| ComponentError::Compile { path: path.to_owned(), error })?;
        let world = |error| ComponentError::World { path: path.to_owned(), error };
        let ready = ProxyPre::new(self.linker.instantiate_pre(&component).map_err(world)?).map_err(world)?;
        let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        Ok(Served { name, ready })
    }
}

/// The compiler, and the pool of instances' memories, tables and stacks.
fn engine(limits: &Limits) -> wasmtime::Result<Engine> {
    let mut pool = PoolingAllocationConfig::default();
    let count = limits.instances;
    pool.total_component_instances(count)
        .total_core_instances(count * CORE_INSTANCES_MAX)
        .total_memories(count * MEMORIES_MAX)
        .total_tables(count * TABLES_MAX)
        .total_stacks(count)
        .max_core_instances_per_component(CORE_INSTANCES_MAX)
        .max_memories_per_component(MEMORIES_MAX)
        .max_tables_per_component(TABLES_MAX)
        .max_memory_size(limits.memory_bytes)
        .table_elements(limits.table_elements)
        .linear_memory_keep_resident(RESIDENT_BYTES.min(limits.memory_bytes))
        .table_keep_resident(64 << 10);
    let mut config = Config::new();
    config.wasm_component_model(true).epoch_interruption(true);
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    Engine::new(&config)
}

/// What components may import: WASI 0.2 with `wasi:http`. What each may do with it is decided for each instance.
fn linker(engine: &Engine) -> wasmtime::Result<Linker<State>> {
    let mut linker = Linker::new(engine);
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    wasmtime_wasi_http::p2::add_only_http_to_linker_async(&mut linker)?;
    Ok(linker)
}
