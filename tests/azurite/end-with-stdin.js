// Loaded before Azurite: the kernel closes the pipe when the test process dies, however it dies.
process.stdin.resume();
process.stdin.on("end", () => process.exit(0));
process.stdin.on("error", () => process.exit(0));
