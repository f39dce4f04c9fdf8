//! The numbers of `src/ompt/layout.rs` are those of the header.

use std::fs;
use std::process::Command;

use tempfile::TempDir;

const NUMBERS: &[(&str, i64)] = &[
    ("ompt_callback_parallel_begin", 3),
    ("ompt_callback_parallel_end", 4),
    ("ompt_callback_task_create", 5),
    ("ompt_callback_task_schedule", 6),
    ("ompt_callback_implicit_task", 7),
    ("ompt_callback_sync_region_wait", 16),
    ("ompt_callback_mutex_released", 17),
    ("ompt_callback_work", 20),
    ("ompt_callback_masked", 21),
    ("ompt_callback_sync_region", 23),
    ("ompt_callback_mutex_acquire", 26),
    ("ompt_callback_mutex_acquired", 27),
    ("ompt_scope_begin", 1),
    ("ompt_work_loop", 1),
    ("ompt_work_sections", 2),
    ("ompt_work_single_executor", 3),
    ("ompt_work_single_other", 4),
    ("ompt_work_loop_static", 10),
    ("ompt_work_loop_other", 13),
    ("ompt_sync_region_barrier_explicit", 3),
    ("ompt_sync_region_taskwait", 5),
    ("ompt_sync_region_taskgroup", 6),
    ("ompt_sync_region_reduction", 7),
    ("ompt_sync_region_barrier_implicit_parallel", 9),
    ("ompt_mutex_critical", 5),
    ("ompt_mutex_atomic", 6),
    ("ompt_mutex_ordered", 7),
    ("ompt_task_initial", 1),
    ("ompt_task_explicit", 4),
    ("ompt_task_complete", 1),
    ("ompt_task_cancel", 3),
    ("ompt_task_detach", 4),
    ("ompt_task_early_fulfill", 5),
    ("ompt_task_late_fulfill", 6),
    ("ompt_taskwait_complete", 8),
    ("sizeof(ompt_data_t)", 8),
    ("sizeof(ompt_start_tool_result_t)", 24),
    ("offsetof(ompt_start_tool_result_t, finalize)", 8),
    ("offsetof(ompt_start_tool_result_t, tool_data)", 16),
];

#[test]
fn the_header_has_the_same_numbers() {
    let asserts = NUMBERS.iter().map(|(name, number)| format!("_Static_assert({name} == {number}, \"{name}\");\n"));
    let directory = TempDir::new().unwrap();
    let source = directory.path().join("numbers.c");
    fs::write(&source, format!("#include <stddef.h>\n#include <omp-tools.h>\n{}", asserts.collect::<String>()))
        .unwrap();
    let status = Command::new("clang-19").arg("-fsyntax-only").arg(source).status().unwrap();
    assert!(status.success(), "{status} (it needs libomp-19-dev)");
}
