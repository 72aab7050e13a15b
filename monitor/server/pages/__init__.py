"""The pages that people read: server-rendered, no script needed, everything from traces and judges escaped."""
