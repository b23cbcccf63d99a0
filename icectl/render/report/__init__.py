"""The page of `icectl report`, and the charts that it shares with `icectl stats --plot`."""
