"""One mapping from Pulumi's resource types to AWS calls, for both ways in: in process, and as a provider plugin."""
