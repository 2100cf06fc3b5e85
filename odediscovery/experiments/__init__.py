"""The experiments of the papers, run by `odediscovery reproduce NAME`."""
