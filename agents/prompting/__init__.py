"""Between observations and texts: templates, answers, transcripts."""
