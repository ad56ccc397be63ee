"""emulax."""
