"""Tables, incidents and baselines made of the history by Spark, in a process of their own (extra `spark`)."""
