"""Score: plan what is to be scored, cut it into shards, and score each shard."""
