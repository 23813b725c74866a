"""What the commands of sim/cli.py do. Each is imported only when it is called, so that `dstlab --help` stays quick."""
