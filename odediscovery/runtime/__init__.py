"""Infrastructure without ODEs: progress, limits, files, devices, task pools."""
