"""Reports: commit measurements, aggregate them into versioned reports, and read reports back."""
