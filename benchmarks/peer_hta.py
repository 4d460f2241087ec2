"""What Meta's HolisticTraceAnalysis does with one trace: load it, then nine analyses. Run by run.py as a peer."""

import logging
import sys
import warnings

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)

from hta.trace_analysis import TraceAnalysis  # noqa: E402

trace = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir="")
trace.get_temporal_breakdown(visualize=False)
trace.get_comm_comp_overlap(visualize=False)
trace.get_gpu_kernel_breakdown(visualize=False)
trace.get_idle_time_breakdown(visualize=False)
trace.get_cuda_kernel_launch_stats(visualize=False)
trace.get_gpu_user_annotation_breakdown(visualize=False)
trace.get_queue_length_summary()
trace.get_queue_length_time_series()
trace.get_memory_bw_summary()
