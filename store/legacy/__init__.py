"""Documents that Genkit's own stores wrote, in any of their three dialects, as records of ours. Pure: no I/O."""
