"""How far a judge can be trusted: people's labels, repeated judgements, and pass rates corrected for the judge's errors."""
