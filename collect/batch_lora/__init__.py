"""BatchLoRA: many adapters in one pass over their frozen base."""
