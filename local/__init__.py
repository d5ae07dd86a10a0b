"""The embedded default: the same Pulumi program on an AWS emulator on this machine."""
