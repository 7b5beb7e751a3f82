"""HTTP: the service over the network. `app` is the application, `routes` has what it can do."""
