"""The experiments of the papers, one file each, run by `odediscovery reproduce NAME`."""
