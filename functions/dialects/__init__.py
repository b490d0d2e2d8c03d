"""Event streams ⇄ wire formats, one module per dialect. A dialect runs nothing and stores nothing."""
