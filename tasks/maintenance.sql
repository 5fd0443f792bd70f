-- name: running
SELECT run_id FROM runs WHERE status = 'running'

-- name: unfinished
SELECT run_id, started_at < now() - to_days($days) FROM runs WHERE status = 'running'

-- name: stop
UPDATE runs SET status = 'stopped', finished_at = now(), message = $message
WHERE run_id = $run_id AND status = 'running'
