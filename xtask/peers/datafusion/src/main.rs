//! A SQL engine at work, which dumps its heap three times: `datafusion-workload FOLDER`.
//!
//! `a.heap` is taken with the first half of the queries under way, `b.heap` with the second half and none of the first:
//! two dumps of one program a while apart. `big.heap` has both, sampled every 2^8 bytes. Run it with
//! `_RJEM_MALLOC_CONF=prof:true,lg_prof_sample:12`.

mod queries;

use std::error::Error;
use std::ffi::CString;
use std::path::{Path, PathBuf};

use datafusion::arrow::record_batch::RecordBatch;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::StreamExt;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Unoptimized, the engine's recursion needs a large stack.
const STACK_BYTES: usize = 256 << 20;
/// Average distance of samples, as a power of two of bytes.
const LG_SAMPLE: usize = 12;
/// The same in the large dump.
const BIG_LG_SAMPLE: usize = 8;
/// The number of times each query is started.
const ROUNDS: usize = 3;

/// A running query, as a server has it in memory.
struct Begun {
    _context: SessionContext,
    _plans: [LogicalPlan; 2],
    _stream: SendableRecordBatchStream,
    _first: Option<RecordBatch>,
}

fn main() -> Result<()> {
    let folder = PathBuf::from(std::env::args().nth(1).ok_or("usage: datafusion-workload FOLDER")?);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).thread_stack_size(STACK_BYTES).enable_all().build()?;
    runtime.block_on(async move { tokio::spawn(work(folder)).await? })
}

async fn work(folder: PathBuf) -> Result<()> {
    watch(queries::FIRST.to_vec(), LG_SAMPLE, &folder, "a.heap").await?;
    watch(queries::SECOND.to_vec(), LG_SAMPLE, &folder, "b.heap").await?;
    watch([queries::FIRST, queries::SECOND].concat(), BIG_LG_SAMPLE, &folder, "big.heap").await
}

/// Resets the profile, starts the queries, and dumps the heap while all of them run.
async fn watch(queries: Vec<&'static str>, lg_sample: usize, folder: &Path, name: &str) -> Result<()> {
    // SAFETY: `prof.reset` takes a `size_t`.
    unsafe { tikv_jemalloc_ctl::raw::write(b"prof.reset\0", lg_sample)? };
    let mut begun = Vec::new();
    for _ in 0..ROUNDS {
        for query in &queries {
            begun.push(begin(query, folder).await?);
        }
    }
    dump(&folder.join(name))
}

async fn begin(query: &str, folder: &Path) -> Result<Begun> {
    let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(2).with_information_schema(true));
    for table in queries::TABLES {
        context.sql(table).await?.collect().await?;
    }
    let query = query.replace("FOLDER", &folder.display().to_string());
    Ok(start(context, &query).await.map_err(|error| format!("{query}: {error}"))?)
}

/// Plans a query and takes its first batch.
async fn start(context: SessionContext, query: &str) -> Result<Begun> {
    let frame = context.sql(query).await?;
    let plans = [frame.logical_plan().clone(), context.state().optimize(frame.logical_plan())?];
    let mut stream = frame.execute_stream().await?;
    let first = stream.next().await.transpose()?;
    Ok(Begun { _context: context, _plans: plans, _stream: stream, _first: first })
}

fn dump(path: &Path) -> Result<()> {
    let name = CString::new(path.as_os_str().as_encoded_bytes())?;
    // SAFETY: `prof.dump` takes a pointer to a terminated string, which lives until the call is over.
    unsafe { tikv_jemalloc_ctl::raw::write(b"prof.dump\0", name.as_ptr())? };
    eprintln!("{}", path.display());
    Ok(())
}
