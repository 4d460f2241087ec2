-- Macro framework_step(text): 1 for what a framework opens around a step, 2 for what it opens around an evaluation
-- step, else NULL.
--
-- Known are Lightning (`[pl][profile]run_training_batch`), nanotron (`train_batch_iter`), vLLM
-- (`execute_context_1(888)_generation_0(0)`, `execute_32_context_0(…)`) and SGLang (`scheduler.run_batch`,
-- `step[DECODE bs=32]`). HF Trainer, Accelerate, TRL, torchtitan and Megatron's training open no such range: their traces
-- have ProfilerStep#, or Optimizer.step#; DeepSpeed names phases alone.

create macro framework_step(text) as
    case
        when text in ('[pl][profile]run_training_batch', 'train_batch_iter', 'scheduler.run_batch')
            or regexp_matches(text, '^execute_[a-z_]*[0-9]+[_(]|^step\[[A-Z_]+ bs=[0-9]+') then 1
        when regexp_matches(text, '^\[pl\]\[profile\]\[Strategy\].*\.(validation|test|predict)_ste[p]$') then 2
    end
