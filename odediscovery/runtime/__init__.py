"""What long work stands on: progress, limits, files, devices, task pools. Nothing about ODEs."""
